package main

import (
	"errors"
	"time"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
)

// planTLS reads the certificates of the data port; nil for plain HTTP.
func planTLS(cfg *config.Config, report *config.Report) *listen.Certificates {
	t := cfg.Listen.TLS
	if !t.On() || report.Has("listen.tls") {
		return nil
	}
	certificates, err := listen.NewCertificates(listen.Files{Cert: t.CertFile, Key: t.KeyFile, ClientCA: t.ClientCAFile})
	if err != nil {
		setting := "listen.tls"
		if bad := (*listen.FileError)(nil); errors.As(err, &bad) {
			setting, err = setting+"."+bad.Setting, bad.Err
		}
		report.Add(cfg.Errorf(setting, "%v", err))
		return nil
	}
	if since, expired := certificates.Expired(time.Now()); expired {
		report.Warn(cfg.Errorf("listen.tls.cert_file", "the certificate has expired on %s, and clients will refuse it; renew it", since.Format(time.DateOnly)))
	}
	return certificates
}
