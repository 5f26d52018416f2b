package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fenceproxy/fenceproxy/config"
)

// kubeFile is a manifest, its documents by their kinds.
type kubeFile struct {
	ConfigMap   *kubeConfigMap
	Service     *kubeService
	StatefulSet *kubeStatefulSet
	Deployment  *kubeDeployment
	Job         *kubeJob
	Budget      *kubeBudget
	Policy      *kubePolicy
}

// readKube decodes a manifest strictly. Each kind stands in it once at most.
func readKube(t *testing.T, name string) (f kubeFile) {
	t.Helper()
	text := readDeploy(t, "kubernetes", name)
	kinds := map[string]func() any{
		"v1/ConfigMap":                       func() any { return made(&f.ConfigMap) },
		"v1/Service":                         func() any { return made(&f.Service) },
		"apps/v1/StatefulSet":                func() any { return made(&f.StatefulSet) },
		"apps/v1/Deployment":                 func() any { return made(&f.Deployment) },
		"batch/v1/Job":                       func() any { return made(&f.Job) },
		"policy/v1/PodDisruptionBudget":      func() any { return made(&f.Budget) },
		"networking.k8s.io/v1/NetworkPolicy": func() any { return made(&f.Policy) },
	}
	heads := yaml.NewDecoder(bytes.NewReader(text))
	strict := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	for {
		var head KubeKind
		err := heads.Decode(&head)
		if errors.Is(err, io.EOF) {
			return f
		}
		kind := head.APIVersion + "/" + head.Kind
		document, ok := kinds[kind]
		if err != nil || !ok {
			t.Fatalf("%s: a document of the kind %q (%v), which is not expected, or not twice", name, kind, err)
		}
		delete(kinds, kind)
		if err := strict.Decode(document()); err != nil {
			t.Fatalf("%s: %s: %v", name, kind, err)
		}
	}
}

func made[T any](at **T) *T {
	*at = new(T)
	return *at
}

func TestDeployKubernetes(t *testing.T) {
	for _, name := range []string{"embedded.yaml", "etcd.yaml"} {
		t.Run(name, func(t *testing.T) {
			f := readKube(t, name)
			cfg := checkDeployed(t, name, f.ConfigMap.Data["fenceproxy.yaml"])
			template, selector := f.pods(t, cfg)
			pod := &template.Spec
			if len(pod.InitContainers) != 1 || len(pod.Containers) != 1 {
				t.Fatalf("%d sidecars and %d containers", len(pod.InitContainers), len(pod.Containers))
			}
			sidecar, api := &pod.InitContainers[0], &pod.Containers[0]
			checkKubePod(t, template, f.ConfigMap.Metadata.Name, f.claims())
			checkSidecar(t, sidecar, cfg)
			preStop := time.Duration(api.Lifecycle.PreStop.Sleep.Seconds) * time.Second
			if grace := time.Duration(pod.Grace) * time.Second; grace < preStop+30*time.Second+cfg.ShutdownTimeout+10*time.Second || preStop == 0 {
				t.Errorf("terminationGracePeriodSeconds %v is not above preStop %v, 30s for the API and shutdown_timeout %v", grace, preStop, cfg.ShutdownTimeout)
			}
			upstream := strings.TrimPrefix(cfg.Upstream.URL, "http://")
			if !strings.HasPrefix(upstream, "127.0.0.1:") || !slices.Contains(api.Args, upstream) || len(api.Ports) > 0 {
				t.Errorf("the API is started with %v and ports %v: it must be on loopback alone, at %s", api.Args, api.Ports, upstream)
			}
			for what, labels := range map[string]map[string]string{"the Service": f.Service.Spec.Selector, "the NetworkPolicy": f.Policy.Spec.PodSelector.MatchLabels, "its owner": selector} {
				if len(labels) == 0 || !maps.Equal(labels, template.Metadata.Labels) {
					t.Errorf("%s selects %v, and the pod has %v", what, labels, template.Metadata.Labels)
				}
			}
			if p := f.Service.Spec.Ports; len(p) != 1 || p[0].TargetPort != sidecar.Ports[0].Name {
				t.Errorf("the Service leads to %+v, want the proxy's port %s alone", p, sidecar.Ports[0].Name)
			}
			f.checkPolicy(t, cfg)
		})
	}
}

// pods returns the pods' template, and looks for what keeps two pods from one
// store.
func (f *kubeFile) pods(t *testing.T, cfg *config.Config) (*kubeTemplate, map[string]string) {
	t.Helper()
	if cfg.Store.Shared() {
		d := f.Deployment
		if d == nil || f.StatefulSet != nil || d.Spec.Replicas < 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable != 0 {
			t.Fatalf("a shared store is there for several pods: %+v", d)
		}
		if f.Budget == nil || !maps.Equal(f.Budget.Spec.Selector.MatchLabels, d.Spec.Selector.MatchLabels) {
			t.Error("no PodDisruptionBudget selects the pods")
		}
		return &d.Spec.Template, d.Spec.Selector.MatchLabels
	}
	s := f.StatefulSet
	if s == nil || f.Deployment != nil || s.Spec.Replicas != 1 {
		t.Fatal("an embedded store is for one pod of a StatefulSet (A4)")
	}
	if s.Spec.ServiceName != f.Service.Metadata.Name || s.Spec.Retention.WhenDeleted != "Retain" || s.Spec.Retention.WhenScaled != "Retain" {
		t.Errorf("StatefulSet: %+v", s.Spec)
	}
	if c := s.Spec.Claims; len(c) != 1 || !slices.Equal(c[0].Spec.AccessModes, []string{"ReadWriteOncePod"}) {
		t.Errorf("the volume must be one that a second pod cannot mount (A4): %+v", c)
	}
	mounted := false
	for _, m := range s.Spec.Template.Spec.InitContainers[0].Mounts {
		mounted = mounted || m.Name == "store" && !m.ReadOnly && path.Dir(cfg.Store.Embedded.Path) == m.MountPath
	}
	if !mounted {
		t.Errorf("the store %s is not on the volume", cfg.Store.Embedded.Path)
	}
	return &s.Spec.Template, s.Spec.Selector.MatchLabels
}

func (f *kubeFile) claims() (names []string) {
	if f.StatefulSet != nil {
		for _, c := range f.StatefulSet.Spec.Claims {
			names = append(names, c.Metadata.Name)
		}
	}
	return names
}

// checkKubePod looks at what every pod of ours has: no privileges, and the
// volumes that it mounts.
func checkKubePod(t *testing.T, template *kubeTemplate, configMap string, volumes []string) {
	t.Helper()
	pod := &template.Spec
	if s := pod.Security; !s.RunAsNonRoot || s.RunAsUser == 0 || s.FSGroup != s.RunAsUser || s.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("the pod's securityContext: %+v", s)
	}
	if pod.AutomountSA == nil || *pod.AutomountSA || pod.ServiceLinks == nil || *pod.ServiceLinks {
		t.Error("the pod gets a token of the cluster's API, or variables that could be taken for settings")
	}
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
		if v.ConfigMap != nil && v.ConfigMap.Name != configMap {
			t.Errorf("the volume %s is the ConfigMap %s, want %s", v.Name, v.ConfigMap.Name, configMap)
		}
		if v.Secret != nil && v.Secret.DefaultMode != 0o440 {
			t.Errorf("the secret %s has mode %o", v.Name, v.Secret.DefaultMode)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if s := c.Security; s.Escalation == nil || *s.Escalation || !s.ReadOnlyRoot || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
			t.Errorf("%s: securityContext %+v", c.Name, s)
		}
		if c.Image == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" || c.Resources.Limits["cpu"] != "" {
			t.Errorf("%s: image %q, resources %+v", c.Name, c.Image, c.Resources)
		}
		for _, m := range c.Mounts {
			if !slices.Contains(volumes, m.Name) {
				t.Errorf("%s mounts %s, which is none of the volumes %v", c.Name, m.Name, volumes)
			}
		}
	}
}

// checkSidecar looks at the proxy's container.
func checkSidecar(t *testing.T, c *kubeContainer, cfg *config.Config) {
	t.Helper()
	if c.RestartPolicy != "Always" {
		t.Errorf("restartPolicy %q: the proxy is no sidecar", c.RestartPolicy)
	}
	if !slices.Equal(c.Args, []string{"serve", "--config", "/etc/fenceproxy/fenceproxy.yaml"}) || !slices.ContainsFunc(c.Mounts, func(m kubeMount) bool {
		return m.Name == "config" && m.MountPath == "/etc/fenceproxy"
	}) {
		t.Errorf("args %v, mounts %+v", c.Args, c.Mounts)
	}
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = fmt.Sprint(p.ContainerPort)
	}
	_, data, _ := net.SplitHostPort(cfg.Listen.Address)
	host, admin, _ := net.SplitHostPort(cfg.Admin.Address)
	if host != "" || ports["http"] != data || ports["admin"] != admin {
		t.Errorf("ports %v, and the configuration has %s and %s", ports, cfg.Listen.Address, cfg.Admin.Address)
	}
	for _, want := range []struct {
		path  string
		probe *kubeProbe
	}{{"/readyz", c.Readiness}, {"/readyz", c.Startup}, {"/healthz", c.Liveness}} {
		if p := want.probe; p == nil || p.HTTPGet.Path != want.path || p.HTTPGet.Port != "admin" || p.HTTPGet.Scheme != "HTTPS" || p.Timeout < 5 || p.Threshold < 2 {
			t.Errorf("the probe of %s is %+v", want.path, p)
		}
	}
	// openTimeout, within which a shared store lets the proxy in.
	if s := c.Startup; s != nil && time.Duration(s.Period*s.Threshold)*time.Second < 2*openTimeout {
		t.Errorf("the startup probe gives up after %d × %d s", s.Threshold, s.Period)
	}
	if len(c.Env) != 1 || c.Env[0].Name != "POD_IP" || c.Env[0].ValueFrom.FieldRef.FieldPath != "status.podIP" {
		t.Errorf("env %+v", c.Env)
	}
}

// checkPolicy wants the proxy's two ports let in, and nothing else.
func (f *kubeFile) checkPolicy(t *testing.T, cfg *config.Config) {
	t.Helper()
	var ports []string
	for _, in := range f.Policy.Spec.Ingress {
		if len(in.From) != 1 || len(in.Ports) == 0 {
			t.Errorf("the NetworkPolicy lets everybody in, or to every port: %+v", in)
		}
		for _, p := range in.Ports {
			ports = append(ports, fmt.Sprint(":", p.Port))
		}
	}
	want := []string{cfg.Listen.Address, cfg.Admin.Address}
	if slices.Sort(ports); !slices.Equal(ports, want) || !slices.Equal(f.Policy.Spec.PolicyTypes, []string{"Ingress"}) {
		t.Errorf("the NetworkPolicy lets in to %v, want %v", ports, want)
	}
}

// TestDeployKubernetesInit: the job that makes the store uses the very same
// configuration and secrets as the pods.
func TestDeployKubernetesInit(t *testing.T) {
	f, job := readKube(t, "etcd.yaml"), readKube(t, "etcd-init.yaml").Job
	pods, template := &f.Deployment.Spec.Template.Spec, &job.Spec.Template
	checkKubePod(t, template, f.ConfigMap.Metadata.Name, nil)
	c := &template.Spec.Containers[0]
	if len(template.Spec.Volumes) != len(pods.Volumes) {
		t.Errorf("volumes %+v, and the pods have %+v", template.Spec.Volumes, pods.Volumes)
	}
	if sidecar := &pods.InitContainers[0]; !slices.Equal(c.Mounts, sidecar.Mounts) || c.Image != sidecar.Image || !slices.Equal(c.Env, sidecar.Env) {
		t.Errorf("the job's container is %+v, and the pods' %+v", c, sidecar)
	}
	if !slices.Equal(c.Args, []string{"store", "init", "--config", "/etc/fenceproxy/fenceproxy.yaml"}) || template.Spec.RestartPolicy != "Never" {
		t.Errorf("args %v, restartPolicy %s", c.Args, template.Spec.RestartPolicy)
	}
	if maps.Equal(template.Metadata.Labels, f.Deployment.Spec.Template.Metadata.Labels) {
		t.Error("the Service would lead to the job's pod")
	}
}
