package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	caddy.RegisterModule(ready{})
	caddy.RegisterModule(keep{})
}

// Tells the runner where Caddy listens, which it does not tell for port 0 over UDP.
type ready struct{}

func (ready) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.packetconns.ready",
		New: func() caddy.Module { return new(ready) },
	}
}

func (ready) WrapPacketConn(socket net.PacketConn) net.PacketConn {
	fmt.Println("ready", socket.LocalAddr())
	// As Caddy does where there is no wrapper: quic-go wants the system's own socket.
	for {
		wrapped, ok := socket.(interface{ Unwrap() net.PacketConn })
		if !ok {
			return socket
		}
		socket = wrapped.Unwrap()
	}
}

// Keeps the bodies of PUT requests, for which Caddy has nothing of its own.
type keep struct {
	Directory string `json:"directory"`
}

func (keep) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.keep",
		New: func() caddy.Module { return new(keep) },
	}
}

func (keep keep) ServeHTTP(
	writer http.ResponseWriter, request *http.Request, _ caddyhttp.Handler,
) error {
	name := strings.TrimPrefix(request.URL.Path, "/")
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`) {
		return caddyhttp.Error(http.StatusNotFound, fmt.Errorf("not a file name: %q", name))
	}
	contents, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(keep.Directory, name), contents, 0o644); err != nil {
		return err
	}
	writer.WriteHeader(http.StatusOK)
	return nil
}
