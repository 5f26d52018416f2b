package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/fenceproxy/fenceproxy/proxy/client"
	"github.com/fenceproxy/fenceproxy/proxy/guard"
)

// lockAccess is how a lease server that does not take everybody is reached.
type lockAccess struct {
	tokenFile, ca, cert, key string
}

func (a *lockAccess) flags(f *pflag.FlagSet) {
	f.StringVar(&a.tokenFile, "token-file", "", "the file of the server's leases.token_file")
	tokenVariable(f, "FENCEPROXY_LEASES_TOKEN_FILE")
	f.StringVar(&a.ca, "ca-file", "", "the certificates that the server's is signed by (PEM; default: the system's)")
	f.StringVar(&a.cert, "cert-file", "", "the client certificate (PEM)")
	f.StringVar(&a.key, "key-file", "", "the key of the client certificate (PEM)")
}

// apply puts it into the options. The files are read once now, so that what is
// wrong with them is told before anything is waited for.
func (a *lockAccess) apply(o *client.LeaseOptions) error {
	if a.tokenFile != "" {
		if _, err := a.bearer(); err != nil {
			return err
		}
		o.Bearer = a.bearer // again for each request: it may be changed while the command runs
	}
	if a.ca == "" && a.cert == "" && a.key == "" {
		return nil
	}
	config := &tls.Config{}
	if a.ca != "" {
		pem, err := os.ReadFile(a.ca)
		if err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("--ca-file: %s has no certificate in PEM form", a.ca)
		}
	}
	if (a.cert == "") != (a.key == "") {
		return errors.New("--cert-file and --key-file need each other")
	}
	if a.cert != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	o.HTTPClient = &http.Client{Transport: &http.Transport{ // no Proxy: it goes to the server directly
		TLSClientConfig:     config,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
	}}
	return nil
}

func (a *lockAccess) bearer() (string, error) {
	token, err := guard.ReadSecret(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return token, nil
}
