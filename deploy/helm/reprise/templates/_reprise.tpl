{{- /* The configuration: defaults of the mode, and the keys of `config` over them. */ -}}
{{- define "reprise.config" -}}
{{- $config := dict
  "data_dir" "/var/lib/reprise/data"
  "admin" (dict "address" "127.0.0.1:9664" "probes" "0.0.0.0:9665")
  "log" (dict "format" "json") -}}
{{- if eq .Values.mode "gateway" -}}
{{- $listener := dict "address" "0.0.0.0:9092" "advertised" "${env:ADVERTISED}" -}}
{{- $config = mergeOverwrite $config (dict
  "listen" (list $listener)
  "drain" (dict "mode" "gateway" "timeout" "40s")) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "reprise.labels" -}}
app.kubernetes.io/name: {{ .Values.name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* What both modes have in common in the container. */ -}}
{{- define "reprise.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, -c, /etc/reprise/config.yaml]
startupProbe:
  httpGet: {path: /startupz, port: probes}
  periodSeconds: 1
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 10
  failureThreshold: 3
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: reprise-config, mountPath: /etc/reprise, readOnly: true}
  - {name: reprise-data, mountPath: /var/lib/reprise}
  {{- with .Values.volumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{- /* An entry of initContainers: {{ include "reprise.sidecar" . | nindent 8 }}. The pod has a
       volume reprise-data, by a claim of its own. */ -}}
{{- define "reprise.sidecar" -}}
- name: reprise
  restartPolicy: Always
  {{- include "reprise.container" . | nindent 2 }}
  ports:
    - {name: probes, containerPort: 9665}
  readinessProbe:
    httpGet: {path: /readyz, port: probes}
    periodSeconds: 5
  {{- with .Values.env }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* Entries of volumes, for both modes. */ -}}
{{- define "reprise.volumes" -}}
- name: reprise-config
  configMap: {name: {{ .Values.name }}}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
