// Reads Kubernetes manifests as JSON lines and decodes each into the API's own Go type. It refuses unknown fields.
package main

import (
	"bufio"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	failed := false
	for lines.Scan() {
		if err := decode(lines.Bytes()); err != nil {
			fmt.Println(err)
			failed = true
			continue
		}
		fmt.Println("ok")
	}
	if failed {
		os.Exit(1)
	}
}

func decode(data []byte) error {
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(data, &kind); err != nil {
		return err
	}
	target, known := types[kind.APIVersion+" "+kind.Kind]
	if !known {
		return fmt.Errorf("expected a kind that the project submits, got %s %s", kind.APIVersion, kind.Kind)
	}
	return yaml.UnmarshalStrict(data, target())
}

// Kinds that the launcher of training jobs and the Helm chart submit.
var types = map[string]func() any{
	"apps/v1 DaemonSet":                        func() any { return &appsv1.DaemonSet{} },
	"apps/v1 Deployment":                       func() any { return &appsv1.Deployment{} },
	"apps/v1 StatefulSet":                      func() any { return &appsv1.StatefulSet{} },
	"batch/v1 Job":                             func() any { return &batchv1.Job{} },
	"networking.k8s.io/v1 NetworkPolicy":       func() any { return &networkingv1.NetworkPolicy{} },
	"policy/v1 PodDisruptionBudget":            func() any { return &policyv1.PodDisruptionBudget{} },
	"rbac.authorization.k8s.io/v1 Role":        func() any { return &rbacv1.Role{} },
	"rbac.authorization.k8s.io/v1 RoleBinding": func() any { return &rbacv1.RoleBinding{} },
	"v1 ConfigMap":                             func() any { return &corev1.ConfigMap{} },
	"v1 Service":                               func() any { return &corev1.Service{} },
	"v1 ServiceAccount":                        func() any { return &corev1.ServiceAccount{} },
	jobset.GroupVersion.String() + " JobSet":   func() any { return &jobset.JobSet{} },
}
