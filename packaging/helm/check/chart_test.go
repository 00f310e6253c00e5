package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"tsdbd/config"
)

// manifests are the objects of a rendered chart.
type manifests struct {
	sets     []*apps.StatefulSet
	services map[string]*core.Service
	secrets  []*core.Secret
	budgets  []*policy.PodDisruptionBudget
	networks []*networking.NetworkPolicy
}

// render renders the chart as release db in namespace metrics, with values as YAML.
func render(values string) (*manifests, error) {
	chart, err := loader.Load("../tsdbd")
	if err != nil {
		return nil, err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "db", Namespace: "metrics", Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return nil, err
	}
	m := &manifests{services: map[string]*core.Service{}}
	for name, file := range files {
		for _, text := range releaseutil.SplitManifests(file) {
			if err := m.add([]byte(text)); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
		}
	}
	return m, nil
}

// add decodes an object.
func (m *manifests) add(text []byte) error {
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	switch kind.APIVersion + " " + kind.Kind {
	case " ": // comments only
		return nil
	case "apps/v1 StatefulSet":
		m.sets = append(m.sets, &apps.StatefulSet{})
		return yaml.UnmarshalStrict(text, m.sets[len(m.sets)-1])
	case "v1 Service":
		s := &core.Service{}
		err := yaml.UnmarshalStrict(text, s)
		m.services[s.Name] = s
		return err
	case "v1 Secret":
		m.secrets = append(m.secrets, &core.Secret{})
		return yaml.UnmarshalStrict(text, m.secrets[len(m.secrets)-1])
	case "policy/v1 PodDisruptionBudget":
		m.budgets = append(m.budgets, &policy.PodDisruptionBudget{})
		return yaml.UnmarshalStrict(text, m.budgets[len(m.budgets)-1])
	case "networking.k8s.io/v1 NetworkPolicy":
		m.networks = append(m.networks, &networking.NetworkPolicy{})
		return yaml.UnmarshalStrict(text, m.networks[len(m.networks)-1])
	}
	return fmt.Errorf("object of %s %s", kind.APIVersion, kind.Kind)
}

// set returns the only stateful set.
func (m *manifests) set(t *testing.T) *apps.StatefulSet {
	t.Helper()
	if len(m.sets) != 1 || len(m.sets[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d stateful sets", len(m.sets))
	}
	return m.sets[0]
}

// environment returns the values of the variables of the server, which all are settings.
func environment(t *testing.T, set *apps.StatefulSet) map[string]string {
	t.Helper()
	known := map[string]bool{}
	for _, s := range (&config.Config{}).Settings() {
		known[s.Env] = true
	}
	values := map[string]string{}
	for _, e := range set.Spec.Template.Spec.Containers[0].Env {
		if !known[e.Name] {
			t.Errorf("%s is no setting", e.Name)
		}
		values[e.Name] = e.Value
		if e.ValueFrom != nil {
			values[e.Name] = e.ValueFrom.FieldRef.FieldPath
		}
	}
	return values
}

// TestOne renders a server.
func TestOne(t *testing.T) {
	m, err := render("settings: {http.auth-enabled: true, query.query-timeout: 30s}\nsettingsSecret: more\nservice: {annotations: {a: b}}\ntolerations: [{key: k, operator: Exists}]\nnodeSelector: {disk: ssd}\nimage: {pullSecrets: [p]}\nstorage: {class: fast, keep: false}\n")
	if err != nil {
		t.Fatal(err)
	}
	set := m.set(t)
	common(t, m, 1)
	env := environment(t, set)
	if env["TSDBD_HTTP_AUTH_ENABLED"] != "true" || env["TSDBD_QUERY_QUERY_TIMEOUT"] != "30s" || env["TSDBD_LOG_FORMAT"] != "json" || env["TSDBD_CLUSTER_NODE"] != "" {
		t.Errorf("environment %v", env)
	}
	pod := set.Spec.Template.Spec
	if len(m.budgets)+len(m.networks)+len(m.secrets) != 0 || pod.Affinity != nil || len(pod.Volumes) != 0 {
		t.Errorf("a single server has objects of a cluster: %+v", m)
	}
	claim := set.Spec.VolumeClaimTemplates[0].Spec
	if *claim.StorageClassName != "fast" || pod.Containers[0].EnvFrom[0].SecretRef.Name != "more" || pod.NodeSelector["disk"] != "ssd" || pod.Tolerations[0].Key != "k" || pod.ImagePullSecrets[0].Name != "p" {
		t.Errorf("values are not used: %+v", pod)
	}
	if set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted != apps.DeletePersistentVolumeClaimRetentionPolicyType {
		t.Error("the volumes are kept")
	}
}

// TestThree renders a cluster.
func TestThree(t *testing.T) {
	m, err := render("replicas: 3\ncluster: {secret: 0123456789abcdef}\n")
	if err != nil {
		t.Fatal(err)
	}
	set := m.set(t)
	common(t, m, 3)
	env := environment(t, set)
	const join = "db-tsdbd-0=db-tsdbd-0.db-tsdbd-nodes.metrics.svc.cluster.local:8088,db-tsdbd-1=db-tsdbd-1.db-tsdbd-nodes.metrics.svc.cluster.local:8088,db-tsdbd-2=db-tsdbd-2.db-tsdbd-nodes.metrics.svc.cluster.local:8088"
	if env["TSDBD_CLUSTER_NODE"] != "metadata.name" || env["TSDBD_CLUSTER_JOIN"] != join {
		t.Errorf("environment %v", env)
	}
	// The program takes these settings, as the first pod has them.
	variables := []string{}
	for k, v := range env {
		switch k {
		case "TSDBD_CLUSTER_NODE":
			v = "db-tsdbd-0"
		case "TSDBD_CLUSTER_SECRET_FILE":
			k, v = "TSDBD_CLUSTER_SECRET", m.secrets[0].StringData["secret"]
		}
		variables = append(variables, k+"="+v)
	}
	from := config.Source{Dir: t.TempDir(), Heap: 1 << 30}
	c, _, err := from.Load(variables)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster.Node != "db-tsdbd-0" || len(c.Cluster.Join) != 3 || c.Cluster.Join[0].Name != c.Cluster.Node {
		t.Errorf("settings of the cluster: %+v", c.Cluster)
	}
	if set.Spec.PodManagementPolicy != apps.ParallelPodManagement {
		t.Error("the pods start one after the other, and the first waits for the others for ever")
	}
	if len(m.budgets) != 1 || m.budgets[0].Spec.MaxUnavailable.IntValue() != 1 || !equal(m.budgets[0].Spec.Selector.MatchLabels, set.Spec.Selector.MatchLabels) {
		t.Errorf("budget %+v", m.budgets)
	}
	rule := set.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(rule) != 1 || !equal(rule[0].LabelSelector.MatchLabels, set.Spec.Selector.MatchLabels) {
		t.Errorf("affinity %+v", rule)
	}
	volume := set.Spec.Template.Spec.Volumes[0]
	if len(m.secrets) != 1 || volume.Secret.SecretName != m.secrets[0].Name || m.secrets[0].StringData["secret"] != "0123456789abcdef" {
		t.Errorf("secret %+v, volume %+v", m.secrets, volume)
	}
	if len(m.networks) != 1 || len(m.networks[0].Spec.Ingress) != 2 || len(m.networks[0].Spec.Ingress[0].From) != 0 || len(m.networks[0].Spec.Ingress[1].From) != 1 {
		t.Errorf("network %+v", m.networks)
	}

	m, err = render("replicas: 3\nspread: preferred\ncluster: {existingSecret: mine}\n")
	if err != nil {
		t.Fatal(err)
	}
	set = m.set(t)
	if len(m.secrets) != 0 || set.Spec.Template.Spec.Volumes[0].Secret.SecretName != "mine" || len(set.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("with a secret that is there: %+v", m)
	}
}

// common checks what a server and a cluster share.
func common(t *testing.T, m *manifests, replicas int32) {
	t.Helper()
	set := m.set(t)
	labels, pod := set.Spec.Selector.MatchLabels, set.Spec.Template
	c := pod.Spec.Containers[0]
	if *set.Spec.Replicas != replicas || set.Name != "db-tsdbd" || !contains(pod.Labels, labels) {
		t.Errorf("%d pods of %s with labels %v", *set.Spec.Replicas, set.Name, pod.Labels)
	}
	nodes, clients := m.services[set.Spec.ServiceName], m.services["db-tsdbd"]
	if nodes == nil || nodes.Spec.ClusterIP != core.ClusterIPNone || !nodes.Spec.PublishNotReadyAddresses || !equal(nodes.Spec.Selector, labels) {
		t.Fatalf("headless service: %+v", nodes)
	}
	if clients == nil || clients.Spec.PublishNotReadyAddresses || !equal(clients.Spec.Selector, labels) || clients.Spec.Ports[0].Port != 8086 {
		t.Fatalf("service: %+v", clients)
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	for _, s := range m.services {
		for _, p := range s.Spec.Ports {
			if !slices.Contains(ports, p.TargetPort.StrVal) {
				t.Errorf("service %s leads to port %s of %v", s.Name, p.TargetPort.StrVal, ports)
			}
		}
	}
	for what, p := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || !slices.Contains(ports, p.HTTPGet.Port.StrVal) {
			t.Errorf("%s probe %+v", what, p)
		}
	}
	// Liveness must not kill a node that only lacks a leader, nor a start that takes long.
	if c.LivenessProbe.HTTPGet.Path != "/ping" || c.ReadinessProbe.HTTPGet.Path != "/health" || c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold < 86400 {
		t.Errorf("probes %+v %+v %+v", c.StartupProbe, c.ReadinessProbe, c.LivenessProbe)
	}
	if s := pod.Spec.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || *s.FSGroup != *s.RunAsGroup {
		t.Errorf("pod: %+v", s)
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("container: %+v", s)
	}
	mounts := map[string]string{}
	for _, v := range c.VolumeMounts {
		mounts[v.Name] = v.MountPath
	}
	env := environment(t, set)
	if claim := set.Spec.VolumeClaimTemplates[0]; mounts[claim.Name] != env["TSDBD_DATA_DIR"] {
		t.Errorf("the volume %s is at %s, the data at %s", claim.Name, mounts[claim.Name], env["TSDBD_DATA_DIR"])
	}
	if !strings.HasSuffix(c.Image, ":0.9.0") && !strings.Contains(c.Image, ":") || c.Resources.Limits.Memory().IsZero() || *pod.Spec.TerminationGracePeriodSeconds < 120 {
		t.Errorf("image %s, resources %v", c.Image, c.Resources)
	}
}

// TestRefusals renders values that make no sense.
func TestRefusals(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 2\n": "1 is a server, 3 are a cluster",
		"replicas: 3\n": "three nodes share a secret",
		"replicas: 3\ncluster: {secret: short}\n":       "three nodes share a secret",
		"replicas: 1\nservice: {annotations: [a, b]}\n": "annotations",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", values, err, want)
		}
	}
}

func equal(a, b map[string]string) bool { return len(a) == len(b) && contains(a, b) }

func contains(all, some map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}
