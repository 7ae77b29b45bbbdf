{{/* The configuration of a component: the chart's keys, and over them those of the values. */}}
{{- define "nodetrail.config" -}}
{{- $base := include "nodetrail.config.base" . | fromYaml -}}
{{- $own := index .root.Values .component.key "config" -}}
{{- include "nodetrail.over" (dict "to" $base "from" $own) -}}
{{ toYaml $base }}
{{- end -}}

{{/* Merges from into to. Sprig's mergeOverwrite would ignore false, 0 and "". */}}
{{- define "nodetrail.over" -}}
{{- $to := .to -}}
{{- range $key, $value := .from -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $to $key)) -}}
{{- include "nodetrail.over" (dict "to" (get $to $key) "from" $value) -}}
{{- else -}}
{{- $_ := set $to $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nodetrail.config.base" -}}
{{- if eq .component.key "fleet" -}}
{{- include "nodetrail.config.fleet" .root -}}
{{- else -}}
data: /var/lib/nodetrail
listen: :9876
health: :9878
log: {format: json}
{{- if .component.watches }}
cluster: {{ .root.Values.cluster | quote }}
state:
  live: {enabled: true}
{{- end }}
{{- if eq .component.key "single" }}
sources:
  webhook: {{ include "nodetrail.config.webhook" .root | nindent 4 }}
{{- else if eq .component.key "gateway" }}
gateway:
  webhook: {{ include "nodetrail.config.webhook" .root | nindent 4 }}
  kafka:
    {{- include "nodetrail.config.kafka" .root | nindent 4 }}
    topic: {{ .root.Values.scaleOut.kafka.topic | quote }}
{{- else }}
sources:
  kafka:
    {{- include "nodetrail.config.kafka" .root | nindent 4 }}
    topics: [{{ .root.Values.scaleOut.kafka.topic | quote }}]
    group: {{ .root.Values.scaleOut.kafka.group | quote }}
store:
  postgres: {dsnFile: /etc/nodetrail-secrets/dsn}
{{- end }}
{{- end }}
{{- end -}}

{{- define "nodetrail.config.fleet" -}}
log: {format: json}
pages:
  listen: :9443
  tls:
    certFile: /etc/nodetrail-tls/tls.crt
    keyFile: /etc/nodetrail-tls/tls.key
  {{- if .Values.fleet.askKubernetes }}
  kubernetes: {enabled: true}
  {{- else }}
  bearerTokenFile: /etc/nodetrail-secrets/pages-token
  {{- end }}
store:
  postgres: {dsnFile: /etc/nodetrail-secrets/dsn}
{{- end -}}

{{- define "nodetrail.config.webhook" -}}
listen: :9443
tls:
  certFile: /etc/nodetrail-tls/tls.crt
  keyFile: /etc/nodetrail-tls/tls.key
  {{- if or .Values.tls.clients.configMapName .Values.tls.clients.secretName }}
  clientCAFile: /etc/nodetrail-clients/clients.crt
  {{- else }}
  clientCAFile: /etc/nodetrail-tls/clients.crt
  {{- end }}
  clientNames: {{ toJson .Values.tls.clients.names }}
{{- end -}}

{{- define "nodetrail.config.kafka" -}}
{{- with .Values.scaleOut.kafka -}}
brokers: {{ toJson .brokers }}
{{- if .tls }}
tls: {enabled: true, caFile: /etc/nodetrail-secrets/kafka-ca.crt}
{{- end }}
{{- if .sasl.enabled }}
sasl: {mechanism: {{ .sasl.mechanism }}, username: {{ .sasl.username | quote }}, passwordFile: /etc/nodetrail-secrets/kafka-password}
{{- end }}
{{- end -}}
{{- end -}}
