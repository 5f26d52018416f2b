package main

import (
	"errors"

	"github.com/fenceproxy/fenceproxy/config"
	"github.com/fenceproxy/fenceproxy/proxy/listen"
)

// planTLS reads the certificates of a listener, whose setting is named; nil for
// plain HTTP.
func planTLS(cfg *config.Config, report *config.Report, setting string, t config.ListenTLS) *listen.Certificates {
	if !t.On() || report.Has(setting) {
		return nil
	}
	certificates, err := listen.NewCertificates(listen.Files{Cert: t.CertFile, Key: t.KeyFile, ClientCA: t.ClientCAFile})
	if err != nil {
		at := setting
		if bad := (*listen.FileError)(nil); errors.As(err, &bad) {
			at, err = setting+"."+bad.Setting, bad.Err
		}
		report.Add(cfg.Errorf(at, "%v", err))
		return nil
	}
	warnExpired(cfg, report, setting+".cert_file", certificates.Expires(), "clients")
	return certificates
}
