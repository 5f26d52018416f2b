package main

// As much of Kubernetes' types as our manifests use, under its names. What is
// not here is an error when a manifest is decoded: a misspelt field is one that
// the cluster may drop without a word.

type kubeMeta struct {
	Name         string            `yaml:"name"`
	GenerateName string            `yaml:"generateName"`
	Labels       map[string]string `yaml:"labels"`
}

// KubeKind has a name that the decoder may set, being embedded.
type KubeKind struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   kubeMeta `yaml:"metadata"`
}

type kubeSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type kubeConfigMap struct {
	KubeKind `yaml:",inline"`
	Data     map[string]string `yaml:"data"`
}

type kubeService struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		Selector map[string]string `yaml:"selector"`
		Ports    []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
	} `yaml:"spec"`
}

type kubeStatefulSet struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		ServiceName    string       `yaml:"serviceName"`
		Replicas       int          `yaml:"replicas"`
		Selector       kubeSelector `yaml:"selector"`
		UpdateStrategy struct {
			Type string `yaml:"type"`
		} `yaml:"updateStrategy"`
		Retention struct {
			WhenDeleted string `yaml:"whenDeleted"`
			WhenScaled  string `yaml:"whenScaled"`
		} `yaml:"persistentVolumeClaimRetentionPolicy"`
		Template kubeTemplate `yaml:"template"`
		Claims   []struct {
			Metadata kubeMeta `yaml:"metadata"`
			Spec     struct {
				AccessModes []string      `yaml:"accessModes"`
				Resources   kubeResources `yaml:"resources"`
			} `yaml:"spec"`
		} `yaml:"volumeClaimTemplates"`
	} `yaml:"spec"`
}

type kubeDeployment struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		Replicas int          `yaml:"replicas"`
		Selector kubeSelector `yaml:"selector"`
		Strategy struct {
			Type          string `yaml:"type"`
			RollingUpdate struct {
				MaxSurge       int `yaml:"maxSurge"`
				MaxUnavailable int `yaml:"maxUnavailable"`
			} `yaml:"rollingUpdate"`
		} `yaml:"strategy"`
		Template kubeTemplate `yaml:"template"`
	} `yaml:"spec"`
}

type kubeJob struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		BackoffLimit            int          `yaml:"backoffLimit"`
		TTLSecondsAfterFinished int          `yaml:"ttlSecondsAfterFinished"`
		Template                kubeTemplate `yaml:"template"`
	} `yaml:"spec"`
}

type kubeBudget struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		MaxUnavailable int          `yaml:"maxUnavailable"`
		Selector       kubeSelector `yaml:"selector"`
	} `yaml:"spec"`
}

type kubePolicy struct {
	KubeKind `yaml:",inline"`
	Spec     struct {
		PodSelector kubeSelector `yaml:"podSelector"`
		PolicyTypes []string     `yaml:"policyTypes"`
		Ingress     []struct {
			Ports []struct {
				Protocol string `yaml:"protocol"`
				Port     int    `yaml:"port"`
			} `yaml:"ports"`
			From []struct {
				PodSelector       *kubeSelector `yaml:"podSelector"`
				NamespaceSelector *kubeSelector `yaml:"namespaceSelector"`
			} `yaml:"from"`
		} `yaml:"ingress"`
	} `yaml:"spec"`
}

type kubeTemplate struct {
	Metadata kubeMeta `yaml:"metadata"`
	Spec     kubePod  `yaml:"spec"`
}

type kubePod struct {
	RestartPolicy string `yaml:"restartPolicy"`
	AutomountSA   *bool  `yaml:"automountServiceAccountToken"`
	ServiceLinks  *bool  `yaml:"enableServiceLinks"`
	Grace         int    `yaml:"terminationGracePeriodSeconds"`
	Security      struct {
		RunAsNonRoot        bool   `yaml:"runAsNonRoot"`
		RunAsUser           int    `yaml:"runAsUser"`
		RunAsGroup          int    `yaml:"runAsGroup"`
		FSGroup             int    `yaml:"fsGroup"`
		FSGroupChangePolicy string `yaml:"fsGroupChangePolicy"`
		SeccompProfile      struct {
			Type string `yaml:"type"`
		} `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	InitContainers []kubeContainer `yaml:"initContainers"`
	Containers     []kubeContainer `yaml:"containers"`
	Volumes        []struct {
		Name      string `yaml:"name"`
		ConfigMap *struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
		Secret *struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		} `yaml:"secret"`
	} `yaml:"volumes"`
}

type kubeMount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	ReadOnly  bool   `yaml:"readOnly"`
}

type kubeContainer struct {
	Name          string   `yaml:"name"`
	Image         string   `yaml:"image"`
	RestartPolicy string   `yaml:"restartPolicy"`
	Args          []string `yaml:"args"`
	Ports         []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Env []struct {
		Name      string `yaml:"name"`
		ValueFrom struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	} `yaml:"env"`
	Startup   *kubeProbe `yaml:"startupProbe"`
	Readiness *kubeProbe `yaml:"readinessProbe"`
	Liveness  *kubeProbe `yaml:"livenessProbe"`
	Lifecycle struct {
		PreStop struct {
			Sleep struct {
				Seconds int `yaml:"seconds"`
			} `yaml:"sleep"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
	Resources kubeResources `yaml:"resources"`
	Security  struct {
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRoot bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities struct {
			Drop []string `yaml:"drop"`
		} `yaml:"capabilities"`
	} `yaml:"securityContext"`
	Mounts []kubeMount `yaml:"volumeMounts"`
}

type kubeProbe struct {
	HTTPGet struct {
		Path   string `yaml:"path"`
		Port   string `yaml:"port"`
		Scheme string `yaml:"scheme"`
	} `yaml:"httpGet"`
	Period    int `yaml:"periodSeconds"`
	Timeout   int `yaml:"timeoutSeconds"`
	Threshold int `yaml:"failureThreshold"`
}

type kubeResources struct {
	Requests map[string]string `yaml:"requests"`
	Limits   map[string]string `yaml:"limits"`
}
