// Reads Kubernetes manifests as JSON lines and decodes each into the API's own Go type, refusing unknown fields.
package main

import (
	"bufio"
	"fmt"
	"os"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	switch kind.APIVersion + " " + kind.Kind {
	case "batch/v1 Job":
		return yaml.UnmarshalStrict(data, &batchv1.Job{})
	case "networking.k8s.io/v1 NetworkPolicy":
		return yaml.UnmarshalStrict(data, &networkingv1.NetworkPolicy{})
	case jobset.GroupVersion.String() + " JobSet":
		return yaml.UnmarshalStrict(data, &jobset.JobSet{})
	}
	return fmt.Errorf("expected a batch/v1 Job, a JobSet or a NetworkPolicy, got %s %s", kind.APIVersion, kind.Kind)
}
