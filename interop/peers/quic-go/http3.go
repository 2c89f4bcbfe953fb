package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func serveHTTP3(connection *quic.Conn) error {
	server := http3.Server{Handler: http.HandlerFunc(answerHTTP3)}
	return server.ServeQUICConn(connection)
}

func answerHTTP3(writer http.ResponseWriter, request *http.Request) {
	name := strings.TrimPrefix(request.URL.Path, "/")
	var err error
	switch request.Method {
	case http.MethodGet:
		var contents []byte
		if contents, err = read("FILES", name); err == nil {
			_, err = writer.Write(contents)
		}
	case http.MethodPut:
		var contents []byte
		if contents, err = io.ReadAll(request.Body); err == nil {
			err = write("RECEIVED", name, contents)
		}
	default:
		writer.WriteHeader(http.StatusMethodNotAllowed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quic-go-peer:", err)
		writer.WriteHeader(http.StatusNotFound)
	}
}

// The request is "GET name" or "PUT name".
func askHTTP3(ctx context.Context, client *http3.ClientConn, request string) error {
	method, name, _ := strings.Cut(request, " ")
	var body io.Reader
	if method == http.MethodPut {
		contents, err := read("FILES", name)
		if err != nil {
			return err
		}
		body = bytes.NewReader(contents)
	}
	asked, err := http.NewRequestWithContext(ctx, method, "https://localhost/"+name, body)
	if err != nil {
		return err
	}
	answer, err := client.RoundTrip(asked)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s was answered with status %s", name, answer.Status)
	}
	contents, err := io.ReadAll(answer.Body)
	if err != nil || method != http.MethodGet {
		return err
	}
	return write("RECEIVED", name, contents)
}

func read(directory, name string) ([]byte, error) {
	file, err := inside(directory, name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

func write(directory, name string, contents []byte) error {
	file, err := inside(directory, name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, contents, 0o644)
}
