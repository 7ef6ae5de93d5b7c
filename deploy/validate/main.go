// Command validate reads Kubernetes manifests from standard input and decodes each into the type of
// its API, strictly: an unknown field, a field written twice and a wrong type are errors. It also
// checks names that refer to each other. With -configs DIR it writes each config.yaml of a ConfigMap
// to DIR.
//
// The last line is "N objects, N errors".
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	yamldocs "k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	configs := flag.String("configs", "", "directory for each config.yaml of a ConfigMap")
	flag.Parse()
	objects, faults := decode(os.Stdin)
	faults = append(faults, check(objects)...)
	if *configs != "" {
		faults = append(faults, writeConfigs(objects, *configs)...)
	}
	for _, fault := range faults {
		fmt.Println("error:", fault)
	}
	fmt.Printf("%d objects, %d errors\n", len(objects), len(faults))
	if len(faults) > 0 || len(objects) == 0 {
		os.Exit(1)
	}
}

func decode(in io.Reader) (objects []runtime.Object, faults []error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, []error{err}
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	documents := yamldocs.NewYAMLReader(bufio.NewReader(in))
	for number := 1; ; number++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, faults
		}
		if err != nil {
			return objects, append(faults, err)
		}
		if isEmpty(text) {
			continue
		}
		object, _, err := strict.Decode(text, nil, nil)
		if err != nil {
			faults = append(faults, fmt.Errorf("document %d: %w", number, err))
			continue
		}
		objects = append(objects, object)
	}
}

// isEmpty tells whether a document holds comments and blank lines only.
func isEmpty(text []byte) bool {
	var found any
	err := yamldocs.Unmarshal(text, &found)
	return err == nil && found == nil
}

// names of one kind of object.
type names map[string]bool

func check(objects []runtime.Object) (faults []error) {
	configMaps, accounts, headless := names{}, names{}, names{}
	var pods []pod
	var services []*corev1.Service
	var budgets []*policyv1.PodDisruptionBudget
	for _, object := range objects {
		switch it := object.(type) {
		case *corev1.ConfigMap:
			configMaps[it.Name] = true
		case *corev1.ServiceAccount:
			accounts[it.Name] = true
		case *corev1.Service:
			services = append(services, it)
			if it.Spec.ClusterIP == corev1.ClusterIPNone {
				headless[it.Name] = true
			}
		case *appsv1.StatefulSet:
			pods = append(pods, podOfSet(it))
		case *appsv1.Deployment:
			pods = append(pods, pod{"Deployment " + it.Name, it.Spec.Selector, it.Spec.Template, nil, ""})
		case *policyv1.PodDisruptionBudget:
			budgets = append(budgets, it)
		}
	}
	for _, pod := range pods {
		faults = append(faults, pod.check(configMaps, accounts, headless)...)
	}
	for _, service := range services {
		faults = append(faults, checkService(service, pods)...)
	}
	for _, budget := range budgets {
		if selected(budget.Spec.Selector, pods) == nil {
			faults = append(faults, fmt.Errorf("PodDisruptionBudget %s selects no pod", budget.Name))
		}
	}
	return faults
}

func podOfSet(set *appsv1.StatefulSet) pod {
	claims := names{}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		claims[claim.Name] = true
	}
	name := "StatefulSet " + set.Name
	return pod{name, set.Spec.Selector, set.Spec.Template, claims, set.Spec.ServiceName}
}

func checkService(service *corev1.Service, pods []pod) (faults []error) {
	selector := &metav1.LabelSelector{MatchLabels: service.Spec.Selector}
	found := selected(selector, pods)
	if found == nil {
		return []error{fmt.Errorf("Service %s selects no pod", service.Name)}
	}
	for _, port := range service.Spec.Ports {
		if target := port.TargetPort.StrVal; target != "" && !found.ports()[target] {
			faults = append(faults, fmt.Errorf("Service %s: no port %s", service.Name, target))
		}
	}
	return faults
}

func selected(selector *metav1.LabelSelector, pods []pod) *pod {
	found, err := metav1.LabelSelectorAsSelector(selector)
	for index := range pods {
		if err == nil && !found.Empty() && found.Matches(labelSet(pods[index].template.Labels)) {
			return &pods[index]
		}
	}
	return nil
}

func writeConfigs(objects []runtime.Object, dir string) (faults []error) {
	written := 0
	for _, object := range objects {
		it, ok := object.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		text, ok := it.Data["config.yaml"]
		if !ok {
			continue
		}
		path := filepath.Join(dir, it.Name+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			faults = append(faults, err)
		}
		written++
	}
	if written == 0 {
		faults = append(faults, errors.New("no ConfigMap holds a config.yaml"))
	}
	return faults
}
