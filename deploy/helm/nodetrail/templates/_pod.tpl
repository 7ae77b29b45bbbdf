{{/* The template of a component's pods. It passes the level "restricted" of the Pod Security Standards. */}}
{{- define "nodetrail.pod" -}}
{{- $v := .root.Values -}}
{{- $own := index $v .component.key -}}
metadata:
  labels:
    {{- include "nodetrail.selector" . | nindent 4 }}
  {{- if or $v.pod.restartOnConfigChange $v.pod.annotations }}
  annotations:
    {{- if $v.pod.restartOnConfigChange }}
    checksum/config: {{ include "nodetrail.config" . | sha256sum }}
    {{- end }}
    {{- with $v.pod.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
spec:
  {{- if .component.account }}
  serviceAccountName: {{ include "nodetrail.shared" .root }}
  {{- else }}
  automountServiceAccountToken: false
  {{- end }}
  {{- if ne .component.key "fleet" }}
  # A stop finishes the batch in hand, and gives sinks 10 seconds.
  terminationGracePeriodSeconds: 60
  {{- end }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  {{- with $v.pod.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with $v.pod.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with $v.pod.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- if .component.many }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "nodetrail.selector" . | nindent 14 }}
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "nodetrail.selector" . | nindent 8 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
  - name: {{ .component.container }}
    image: {{ include "nodetrail.image" .root | quote }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    args: [{{ .component.command }}, --config, /etc/nodetrail/{{ .component.file }}{{ if eq .component.key "fleet" }}, --fleet, --serve, ":9443", --health, ":9878"{{ end }}]
    ports:
    {{- if eq .component.key "fleet" }}
    - {name: pages, containerPort: 9443}
    {{- else }}
    {{- if .component.serves }}
    - {name: audit, containerPort: 9443}
    {{- end }}
    - {name: metrics, containerPort: 9876}
    {{- end }}
    - {name: health, containerPort: 9878}
    env:
    # Somewhat below the limit.
    - {name: GOMEMLIMIT, value: {{ div (mul $own.resources.memoryLimitMiB 9) 10 }}MiB}
    resources:
      requests: {cpu: {{ $own.resources.cpu | quote }}, memory: {{ $own.resources.memoryMiB }}Mi}
      limits: {memory: {{ $own.resources.memoryLimitMiB }}Mi{{ with $own.resources.cpuLimit }}, cpu: {{ . | quote }}{{ end }}}
    {{- if .component.watches }}
    # It serves once it has loaded what it kept of the state.
    startupProbe:
      httpGet: {path: /healthz, port: health}
      periodSeconds: 5
      failureThreshold: 60
    {{- end }}
    livenessProbe:
      httpGet: {path: /healthz, port: health}
      timeoutSeconds: 5
    readinessProbe:
      httpGet: {path: /readyz, port: health}
      timeoutSeconds: 5
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
    {{- if eq .component.data "empty" }}
    # Dead letters only: events that are longer than the topic takes, and what is no audit event.
    {{- end }}
    {{- if ne .component.data "none" }}
    - {name: data, mountPath: /var/lib/nodetrail}
    {{- end }}
    # Folders rather than single files: those would not change with the ConfigMap and the Secret.
    - {name: config, mountPath: /etc/nodetrail, readOnly: true}
    {{- if or .component.serves (eq .component.key "fleet") }}
    - {name: tls, mountPath: /etc/nodetrail-tls, readOnly: true}
    {{- end }}
    {{- if .component.serves }}
    {{- if or $v.tls.clients.configMapName $v.tls.clients.secretName }}
    - {name: clients, mountPath: /etc/nodetrail-clients, readOnly: true}
    {{- end }}
    {{- end }}
    {{- if .component.secrets }}
    - {name: secrets, mountPath: /etc/nodetrail-secrets, readOnly: true}
    {{- end }}
  volumes:
  {{- if eq .component.data "empty" }}
  - name: data
    emptyDir: {}
  {{- end }}
  - name: config
    configMap: {name: {{ include "nodetrail.shared" .root }}}
  {{- if or .component.serves (eq .component.key "fleet") }}
  - name: tls
    secret: {secretName: {{ $v.tls.secretName }}, defaultMode: 288}
  {{- end }}
  {{- if .component.serves }}
  {{- if $v.tls.clients.configMapName }}
  - name: clients
    configMap: {name: {{ $v.tls.clients.configMapName }}}
  {{- else if $v.tls.clients.secretName }}
  - name: clients
    secret: {secretName: {{ $v.tls.clients.secretName }}, defaultMode: 288}
  {{- end }}
  {{- end }}
  {{- with .component.secrets }}
  - name: secrets
    secret: {secretName: {{ . }}, defaultMode: 288}
  {{- end }}
{{- end -}}

{{/* The volume of a StatefulSet. */}}
{{- define "nodetrail.claims" -}}
volumeClaimTemplates:
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests: {storage: {{ .size }}}
{{- end -}}
