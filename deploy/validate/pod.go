package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// pod is the template of a workload, and what its names may refer to.
type pod struct {
	owner    string
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   names
	service  string
}

func labelSet(of map[string]string) labels.Set { return labels.Set(of) }

func (p pod) containers() []corev1.Container {
	return append(append([]corev1.Container{}, p.template.Spec.InitContainers...),
		p.template.Spec.Containers...)
}

func (p pod) ports() names {
	found := names{}
	for _, container := range p.containers() {
		for _, port := range container.Ports {
			found[port.Name] = true
		}
	}
	return found
}

func (p pod) check(configMaps, accounts, headless names) (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(p.owner+": "+format, args...))
	}
	own := []pod{p}
	if selected(p.selector, own) == nil {
		fault("its selector does not match its own pods")
	}
	if p.service != "" && !headless[p.service] {
		fault("there is no headless Service %s", p.service)
	}
	spec := p.template.Spec
	if spec.ServiceAccountName != "" && !accounts[spec.ServiceAccountName] {
		fault("there is no ServiceAccount %s", spec.ServiceAccountName)
	}
	volumes := names{}
	for _, volume := range spec.Volumes {
		volumes[volume.Name] = true
		if from := volume.ConfigMap; from != nil && !configMaps[from.Name] {
			fault("there is no ConfigMap %s", from.Name)
		}
	}
	sidecar := false
	for _, container := range p.containers() {
		for _, mount := range container.VolumeMounts {
			if !volumes[mount.Name] && !p.claims[mount.Name] {
				fault("container %s mounts no volume: %s", container.Name, mount.Name)
			}
		}
		if container.Name == "reprise" {
			sidecar = true
			checkReprise(container, fault)
		}
	}
	if !sidecar {
		fault("no container is called reprise")
	}
	return faults
}

// checkReprise holds the container of reprise to three probes by port name and to no rights.
func checkReprise(container corev1.Container, fault func(string, ...any)) {
	ports := names{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	probes := map[string]*corev1.Probe{
		"/startupz": container.StartupProbe,
		"/livez":    container.LivenessProbe,
		"/readyz":   container.ReadinessProbe,
	}
	for path, probe := range probes {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path {
			fault("reprise has no probe of %s", path)
		} else if !ports[probe.HTTPGet.Port.StrVal] {
			fault("the probe of %s names no port of reprise", path)
		}
	}
	rights := container.SecurityContext
	if rights == nil || rights.ReadOnlyRootFilesystem == nil || !*rights.ReadOnlyRootFilesystem ||
		rights.AllowPrivilegeEscalation == nil || *rights.AllowPrivilegeEscalation {
		fault("reprise may write its root or gain privileges")
	}
}
