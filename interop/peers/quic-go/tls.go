package main

import (
	"context"
	"crypto/tls"
	_ "unsafe" // for linkname
)

// crypto/tls has no setting for the cipher suites of TLS 1.3, but lets them be linked to.
var (
	//go:linkname withAES crypto/tls.defaultCipherSuitesTLS13
	withAES []uint16
	//go:linkname withoutAES crypto/tls.defaultCipherSuitesTLS13NoAES
	withoutAES []uint16
)

func offerOnly(suite uint16) {
	withAES, withoutAES = []uint16{suite}, []uint16{suite}
}

// A client sends a share for the first group that crypto/tls prefers, whatever the order is here, and
// servers other than Go's do not know that. A server refuses all but the last.
func groups() []tls.CurveID {
	if variable("ROLE") == "client" {
		return []tls.CurveID{tls.SecP384r1MLKEM1024, tls.X25519}
	}
	return []tls.CurveID{tls.X25519}
}

// tickets keeps sessions, and tells when there is one.
type tickets struct {
	tls.ClientSessionCache
	arrived chan struct{}
}

func newTickets() *tickets {
	return &tickets{tls.NewLRUClientSessionCache(0), make(chan struct{}, 1)}
}

func (t *tickets) Put(key string, session *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, session)
	select {
	case t.arrived <- struct{}{}:
	default:
	}
}

func (t *tickets) wait(ctx context.Context) error {
	select {
	case <-t.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
