// quic-go as a peer of tack-interop: hq-interop and HTTP/3 in both roles. docs/interop.md has the contract.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

// What the contract says to exit with where a test case is not known, after a line that says so.
const unsupported = 127

// On a link that loses much, probes soon come seldom.
const patience = time.Minute

var testCases = map[string]bool{
	"handshake": true, "transfer": true, "chacha20": true, "multiplexing": true, "retry": true,
	"retry-resumption": true, "helloretry": true, "cid-empty": true, "cid-long": true, "datagrams": true,
	"resumption": true, "zerortt": true, "keyupdate": true, "http3": true, "transferloss": true,
	"ackfrequency": true, "immediateack": true, "tack": true, "greased": true, "noannounce": true,
}

func main() {
	go endWithTheRunner()
	if !testCases[variable("TESTCASE")] {
		refuse()
	}
	var err error
	switch role := variable("ROLE"); role {
	case "server":
		err = serve()
	case "client":
		err = fetch()
	default:
		err = fmt.Errorf("TACK_INTEROP_ROLE is neither client nor server: %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-peer:", err)
		os.Exit(1)
	}
}

// Says that the test case is not known, and ends.
func refuse() {
	fmt.Println("unsupported")
	os.Exit(unsupported)
}

// Ends this program once the runner, which holds the other end of its standard input, is gone.
func endWithTheRunner() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

func serve() error {
	certificate, err := tls.LoadX509KeyPair(variable("CERTIFICATE"), variable("KEY"))
	if err != nil {
		return err
	}
	tlsConfig, err := tlsConfig()
	if err != nil {
		return err
	}
	tlsConfig.Certificates = []tls.Certificate{certificate}
	address, err := net.ResolveUDPAddr("udp", variable("ADDRESS"))
	if err != nil {
		return err
	}
	socket, err := net.ListenUDP("udp", address)
	if err != nil {
		return err
	}
	if isTest("cid-empty") {
		// A server of quic-go tells connections apart by their ids alone.
		refuse()
	}
	retry := isTest("retry") || isTest("retry-resumption")
	transport := quic.Transport{
		Conn:                socket,
		ConnectionIDLength:  idLength(),
		VerifySourceAddress: func(net.Addr) bool { return retry },
	}
	listener, err := transport.Listen(tlsConfig, config())
	if err != nil {
		return err
	}
	fmt.Println("ready", listener.Addr())
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		if protocol() == http3.NextProtoH3 {
			go serveHTTP3(connection)
			continue
		}
		if isTest("datagrams") {
			go returnDatagrams(connection)
		}
		go func() {
			for {
				stream, err := connection.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go func() {
					if err := answer(stream); err != nil {
						fmt.Fprintln(os.Stderr, "quic-go-peer:", err)
						stream.CancelWrite(1)
					}
				}()
			}
		}()
	}
}

func answer(stream *quic.Stream) error {
	request, err := io.ReadAll(stream)
	if err != nil {
		return err
	}
	line, body, found := bytes.Cut(request, []byte("\n"))
	if !found {
		return errors.New("no request line")
	}
	method, path, _ := strings.Cut(strings.TrimSpace(string(line)), " /")
	switch method {
	case "GET":
		file, err := inside("FILES", path)
		if err != nil {
			return err
		}
		contents, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := stream.Write(contents); err != nil {
			return err
		}
	case "PUT":
		file, err := inside("RECEIVED", path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, body, 0o644); err != nil {
			return err
		}
	default:
		return fmt.Errorf("not a request: %q", line)
	}
	return stream.Close()
}

func fetch() error {
	tlsConfig, err := tlsConfig()
	if err != nil {
		return err
	}
	tlsConfig.InsecureSkipVerify = true // trust is not under test
	tlsConfig.ServerName = "localhost"
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if isTest("chacha20") {
		offerOnly(tls.TLS_CHACHA20_POLY1305_SHA256)
	}
	dial := dialer()
	requests := strings.Split(variable("REQUESTS"), ",")
	if isTest("resumption") || isTest("zerortt") || isTest("retry-resumption") {
		tickets := newTickets()
		tlsConfig.ClientSessionCache = tickets
		connection, err := dial(ctx, variable("ADDRESS"), tlsConfig, config())
		if err != nil {
			return err
		}
		if err := askAll(ctx, connection, requests[:1]); err != nil {
			return err
		}
		if err := tickets.wait(ctx); err != nil {
			return err
		}
		if err := connection.CloseWithError(0, "done"); err != nil {
			return err
		}
		requests = requests[1:]
	}
	if isTest("zerortt") {
		dial = quic.DialAddrEarly
	}
	// After a hundred packets quic-go changes the keys by itself.
	connection, err := dial(ctx, variable("ADDRESS"), tlsConfig, config())
	if err != nil {
		return err
	}
	if isTest("datagrams") {
		go returnDatagrams(connection)
	}
	if err := askAll(ctx, connection, requests); err != nil {
		return err
	}
	return connection.CloseWithError(0, "done")
}

type dialFunc = func(context.Context, string, *tls.Config, *quic.Config) (*quic.Conn, error)

// By itself a client's ids are empty.
func dialer() dialFunc {
	if idLength() == 0 {
		return quic.DialAddr
	}
	return func(ctx context.Context, address string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
		server, err := net.ResolveUDPAddr("udp", address)
		if err != nil {
			return nil, err
		}
		socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: server.IP})
		if err != nil {
			return nil, err
		}
		transport := quic.Transport{Conn: socket, ConnectionIDLength: idLength()}
		return transport.Dial(ctx, server, tlsConfig, config)
	}
}

// Zero stands for what quic-go does by itself.
func idLength() int {
	if isTest("cid-long") {
		return 20
	}
	return 0
}

func returnDatagrams(connection *quic.Conn) {
	for {
		data, err := connection.ReceiveDatagram(context.Background())
		if err != nil {
			return
		}
		if err := connection.SendDatagram(data); err != nil {
			fmt.Fprintln(os.Stderr, "quic-go-peer:", err)
			return
		}
	}
}

func askAll(ctx context.Context, connection *quic.Conn, requests []string) error {
	ask := func(request string) error { return ask(ctx, connection, request) }
	if protocol() == http3.NextProtoH3 {
		client := new(http3.Transport).NewClientConn(connection)
		ask = func(request string) error { return askHTTP3(ctx, client, request) }
	}
	results := make(chan error, len(requests))
	for _, request := range requests {
		go func() { results <- ask(request) }()
	}
	for range requests {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

// The request is "GET name" or "PUT name".
func ask(ctx context.Context, connection *quic.Conn, request string) error {
	method, name, _ := strings.Cut(request, " ")
	stream, err := connection.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stream, "%s /%s\r\n", method, name); err != nil {
		return err
	}
	if method == "PUT" {
		file, err := inside("FILES", name)
		if err != nil {
			return err
		}
		contents, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := stream.Write(contents); err != nil {
			return err
		}
	}
	if err := stream.Close(); err != nil {
		return err
	}
	answer, err := io.ReadAll(stream)
	if err != nil || method != "GET" {
		return err
	}
	file, err := inside("RECEIVED", name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, answer, 0o644)
}

func tlsConfig() (*tls.Config, error) {
	config := &tls.Config{NextProtos: []string{protocol()}}
	if isTest("helloretry") {
		config.CurvePreferences = groups()
	}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		config.KeyLogWriter = log
	}
	return config, nil
}

// The tracer writes into QLOGDIR, if that is set.
func config() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: patience,
		MaxIdleTimeout:       patience,
		Tracer:               qlog.DefaultConnectionTracer,
		Allow0RTT:            isTest("zerortt"),
		EnableDatagrams:      isTest("datagrams"),
	}
}

func isTest(name string) bool {
	return variable("TESTCASE") == name
}

func protocol() string {
	if name := variable("PROTOCOL"); name != "" {
		return name
	}
	return "hq-interop"
}

func variable(name string) string {
	return os.Getenv("TACK_INTEROP_" + name)
}

// A file of that name in the directory that a variable names.
func inside(directory, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("not a file name: %q", name)
	}
	return filepath.Join(variable(directory), name), nil
}
