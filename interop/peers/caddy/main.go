// Caddy as a peer of tack-interop: an HTTP/3 server. docs/interop.md has the contract.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
)

// What the contract says to exit with where a test case is not known, after a line that says so.
const unsupported = 127

// Caddy sends a Retry only under attack, and no setting makes it.
var testCases = map[string]bool{
	"handshake": true, "transfer": true, "chacha20": true, "multiplexing": true,
	"resumption": true, "zerortt": true, "keyupdate": true, "http3": true,
	"transferloss": true, "ackfrequency": true, "immediateack": true, "tack": true,
	"greased": true, "noannounce": true,
}

func main() {
	go endWithTheRunner()
	if !testCases[variable("TESTCASE")] || variable("ROLE") != "server" ||
		variable("PROTOCOL") != "h3" {
		refuse()
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "caddy-peer:", err)
		os.Exit(1)
	}
	select {}
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

type object = map[string]any
type list = []any

func serve() error {
	policy := object{"alpn": list{"h3"}}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		policy["insecure_secrets_log"] = path
	}
	server := object{
		"listen":                  list{variable("ADDRESS")},
		"protocols":               list{"h3"},
		"automatic_https":         object{"disable": true},
		"tls_connection_policies": list{policy},
		"packet_conn_wrappers":    list{object{"wrapper": "ready"}},
		"routes": list{
			object{
				"match":  list{object{"method": list{"PUT"}}},
				"handle": list{object{"handler": "keep", "directory": variable("RECEIVED")}},
			},
			object{"handle": list{object{"handler": "file_server", "root": variable("FILES")}}},
		},
	}
	certificate := object{"certificate": variable("CERTIFICATE"), "key": variable("KEY")}
	// Nothing of this run is for the next, nor for the user's own Caddy.
	own := filepath.Join(filepath.Dir(variable("RECEIVED")), "caddy")
	if err := os.Setenv("XDG_DATA_HOME", own); err != nil {
		return err
	}
	config, err := json.Marshal(object{
		"admin":   object{"disabled": true, "config": object{"persist": false}},
		"storage": object{"module": "file_system", "root": own},
		"apps": object{
			"http": object{"servers": object{"interop": server}},
			"tls": object{
				"certificates":          object{"load_files": list{certificate}},
				"disable_ocsp_stapling": true,
			},
		},
	})
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

func variable(name string) string {
	return os.Getenv("TACK_INTEROP_" + name)
}
