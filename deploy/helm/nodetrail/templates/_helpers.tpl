{{- define "nodetrail.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* What the pods of a component are selected by. It must never change: selectors of a StatefulSet are immutable. */}}
{{- define "nodetrail.selector" -}}
app.kubernetes.io/name: {{ .component.name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{/* Labels of what belongs to the release as a whole. */}}
{{- define "nodetrail.labels" -}}
app.kubernetes.io/part-of: nodetrail
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The components of the mode. suffix makes the names of their objects. serves: they take in the webhook. watches: they watch the cluster. account: they ask its
API servers. many: there can be several pods. data: where they keep something. secrets: the Secret that they need. */}}
{{- define "nodetrail.components" -}}
{{- $scaleOut := .Values.scaleOut.secretName }}
{{- if eq .Values.mode "single" }}
- {key: single, name: nodetrail, suffix: "", container: nodetrail, command: run, file: nodetrail.yaml, serves: true, watches: true, account: true, many: false, data: claim, secrets: ""}
{{- else if eq .Values.mode "scale-out" }}
- {key: gateway, name: nodetrail-gateway, suffix: "-gateway", container: gateway, command: gateway, file: gateway.yaml, serves: true, watches: false, account: false, many: true, data: empty, secrets: {{ $scaleOut }}}
- {key: analyzer, name: nodetrail-analyzer, suffix: "-analyzer", container: analyzer, command: run, file: analyzer.yaml, serves: false, watches: true, account: true, many: true, data: claim, secrets: {{ $scaleOut }}}
{{- else }}
- {key: fleet, name: nodetrail-fleet, suffix: "-fleet", container: fleet, command: report, file: fleet.yaml, serves: false, watches: false, account: {{ .Values.fleet.askKubernetes }}, many: false, data: none, secrets: {{ .Values.fleet.secretName }}}
{{- end }}
{{- end -}}

{{/* The name of what belongs to all components. The page of the fleet can be next to the other modes. */}}
{{- define "nodetrail.shared" -}}
{{ include "nodetrail.fullname" . }}{{ if eq .Values.mode "fleet" }}-fleet{{ end }}
{{- end -}}

{{- define "nodetrail.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}{{ with .tag }}:{{ . }}{{ end }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Peers of addresses. */}}
{{- define "nodetrail.blocks" -}}
{{- range $i, $cidr := . }}
{{- if $i }}
{{ end -}}
- ipBlock: {cidr: {{ $cidr | quote }}}
{{- end }}
{{- end -}}
