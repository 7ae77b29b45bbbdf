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

{{/* The components of the mode. suffix makes the names of their objects. serves: they take in the webhook. watches: they watch the cluster. */}}
{{- define "nodetrail.components" -}}
{{- if eq .Values.mode "single" }}
- {key: single, name: nodetrail, suffix: "", container: nodetrail, command: run, file: nodetrail.yaml, serves: true, watches: true, secrets: false}
{{- else }}
- {key: gateway, name: nodetrail-gateway, suffix: "-gateway", container: gateway, command: gateway, file: gateway.yaml, serves: true, watches: false, secrets: true}
- {key: analyzer, name: nodetrail-analyzer, suffix: "-analyzer", container: analyzer, command: run, file: analyzer.yaml, serves: false, watches: true, secrets: true}
{{- end }}
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
