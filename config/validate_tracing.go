package config

import (
	"fmt"
	"net/url"
)

func (v *validator) tracing() {
	t := v.cfg.Tracing
	if t.OTLPEndpoint != "" {
		u, err := url.Parse(t.OTLPEndpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			v.fail("tracing.otlp_endpoint", fmt.Sprintf("%q is not the URL of a collector", t.OTLPEndpoint), "http://HOST:4318 or https://HOST[/PATH]")
		}
	}
	if t.SamplePercent < 0 || t.SamplePercent > 100 {
		v.fail("tracing.sample_percent", fmt.Sprintf("%d is out of range", t.SamplePercent), "0 to 100")
	}
}
