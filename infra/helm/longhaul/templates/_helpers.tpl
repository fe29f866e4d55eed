{{/* Short enough that NAME-sandbox-1000 fits into the 40 characters of a host's name. */}}
{{- define "longhaul.name" -}}
{{- if contains "longhaul" .Release.Name -}}{{ .Release.Name | trunc 27 | trimSuffix "-" }}{{- else -}}{{ printf "%s-longhaul" .Release.Name | trunc 27 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a role: { root, role } */}}
{{- define "longhaul.selector" -}}
app.kubernetes.io/name: longhaul
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "longhaul.labels" -}}
{{ include "longhaul.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/* Image of a role; control and artifacts share one: { root, role } */}}
{{- define "longhaul.image" -}}
{{- $target := ternary .role "worker" (or (eq .role "sandbox") (eq .role "trainer")) -}}
{{- $digest := get .root.Values.image.digests $target -}}
{{- if $digest -}}{{ .root.Values.image.repository }}/{{ $target }}@{{ $digest }}
{{- else -}}{{ .root.Values.image.repository }}/{{ $target }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{- end -}}
{{- end -}}

{{/* Key of a role's values: { root, role } */}}
{{- define "longhaul.valuesKey" -}}{{ ternary "artifactsWorker" .role (eq .role "artifacts") }}{{- end -}}

{{- define "longhaul.usesBucket" -}}{{ if hasPrefix "s3://" .Values.artifacts.location }}yes{{ end }}{{- end -}}
{{- define "longhaul.drains" -}}{{ if and (eq .Values.sandbox.engine.kind "pod") (gt (int .Values.sandbox.drainSeconds) 0) }}yes{{ end }}{{- end -}}

{{/* Security context of the Pod Security Standard `restricted`. */}}
{{- define "longhaul.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "longhaul.containerSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Variables of a worker beside the ConfigMap: those from secrets, and those of the role. */}}
{{- define "longhaul.env" -}}
{{- with .root.Values.temporal.apiKey }}
- name: TEMPORAL_API_KEY
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}
{{- with .root.Values.policyServer.apiKey }}
- name: LONGHAUL_POLICY_API_KEY
  valueFrom: { secretKeyRef: { name: {{ .name }}, key: {{ .key }} } }
{{- end }}
{{- with .root.Values.artifacts.secret }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom: { secretKeyRef: { name: {{ $.root.Values.artifacts.secret }}, key: {{ . }} } }
{{- end }}
{{- end }}
{{- if and (eq .role "control") .root.Values.control.buildId }}
- { name: LONGHAUL_BUILD_ID, value: {{ .root.Values.control.buildId | quote }} }
{{- end }}
{{- if eq .role "trainer" }}
- name: LONGHAUL_HOST_ID
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
{{- end }}
{{- if eq .role "sandbox" }}
- name: LONGHAUL_HOST_ID
  valueFrom: { fieldRef: { fieldPath: {{ ternary "spec.nodeName" "metadata.name" (eq .root.Values.sandbox.engine.kind "node") }} } }
{{- if eq .root.Values.sandbox.engine.kind "none" }}
- { name: LONGHAUL_SANDBOXES, value: pods }
- { name: LONGHAUL_GRADERS, value: pods }
- { name: LONGHAUL_KUBERNETES_NAMESPACE, value: {{ .root.Values.sandbox.pods.namespace | quote }} }
- { name: LONGHAUL_KUBERNETES_SECCOMP, value: {{ .root.Values.sandbox.pods.seccomp | quote }} }
{{- with .root.Values.sandbox.pods.runtimeClass }}
- { name: LONGHAUL_SANDBOX_RUNTIME, value: {{ . | quote }} }
{{- end }}
{{- else }}
- { name: DOCKER_HOST, value: "unix:///run/engine/docker.sock" }
{{- end }}
- { name: LONGHAUL_LEASE_S, value: {{ .root.Values.sandbox.leaseSeconds | toString | quote }} }
- { name: LONGHAUL_MIN_FREE_GIB, value: {{ .root.Values.sandbox.minFreeGiB | toString | quote }} }
{{- with .root.Values.sandbox.cpus }}
- { name: LONGHAUL_SANDBOX_CPUS, value: {{ . | toString | quote }} }
{{- end }}
{{- with .root.Values.sandbox.memoryGiB }}
- { name: LONGHAUL_SANDBOX_MEMORY_GIB, value: {{ . | toString | quote }} }
{{- end }}
{{- end }}
{{- end -}}

{{- define "longhaul.envFrom" -}}
- configMapRef: { name: {{ include "longhaul.name" .root }}-environment }
{{- range .root.Values.envFromSecrets }}
- secretRef: { name: {{ . }} }
{{- end }}
{{- end -}}

{{- define "longhaul.mounts" -}}
- { name: scratch, mountPath: /var/lib/longhaul }
- { name: tmp, mountPath: /tmp }
{{- if .root.Values.artifacts.claim.name }}
- { name: artifacts, mountPath: {{ .root.Values.artifacts.claim.mountPath }} }
{{- end }}
{{- if .root.Values.temporal.tls.secret }}
- { name: temporal-tls, mountPath: /etc/longhaul/temporal-tls, readOnly: true }
{{- end }}
{{- if .root.Values.temporal.codecKeys }}
- { name: codec-keys, mountPath: /etc/longhaul/codec, readOnly: true }
{{- end }}
{{- if and (eq .role "control") .root.Values.recipes }}
- { name: recipes, mountPath: /etc/longhaul/recipes, readOnly: true }
{{- end }}
{{- if and (eq .role "sandbox") (ne .root.Values.sandbox.engine.kind "none") }}
- { name: engine, mountPath: {{ ternary "/run/engine" "/run/engine/docker.sock" (eq .root.Values.sandbox.engine.kind "pod") }} }
{{- end }}
{{- end -}}

{{- define "longhaul.volumes" -}}
- { name: scratch, emptyDir: { sizeLimit: {{ (get .root.Values (include "longhaul.valuesKey" .)).scratch }} } }
- { name: tmp, emptyDir: { sizeLimit: 2Gi } }
{{- if .root.Values.artifacts.claim.name }}
- { name: artifacts, persistentVolumeClaim: { claimName: {{ .root.Values.artifacts.claim.name }} } }
{{- end }}
{{- /* Only containers that mount the secret can read it. Sandbox pods have no fsGroup to which its files could belong. */}}
{{- with .root.Values.temporal.tls.secret }}
- { name: temporal-tls, secret: { secretName: {{ . }} } }
{{- end }}
{{- with .root.Values.temporal.codecKeys }}
- { name: codec-keys, secret: { secretName: {{ .name }}, items: [{ key: {{ .key }}, path: keys }] } }
{{- end }}
{{- if and (eq .role "control") .root.Values.recipes }}
- { name: recipes, configMap: { name: {{ include "longhaul.name" .root }}-recipes } }
{{- end }}
{{- end -}}

{{/* The container of a worker: { root, role } */}}
{{- define "longhaul.container" -}}
{{- $own := get .root.Values (include "longhaul.valuesKey" .) -}}
name: worker
image: {{ include "longhaul.image" . }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [worker, --role, {{ .role }}]
env:
  {{- include "longhaul.env" . | trim | nindent 2 }}
envFrom:
  {{- include "longhaul.envFrom" . | nindent 2 }}
ports:
  - { name: health, containerPort: {{ .root.Values.ports.health }} }
  {{- if .root.Values.ports.metrics }}
  - { name: metrics, containerPort: {{ .root.Values.ports.metrics }} }
  {{- end }}
# A worker that cannot start exits with the reason. The probes check whether the event loop of a started worker runs.
startupProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /live, port: health }
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /ready, port: health }
  periodSeconds: 5
  timeoutSeconds: 5
{{- if and (eq .role "sandbox") (include "longhaul.drains" .root) }}
lifecycle:
  preStop:
    exec:
      command:
        - timeout
        - {{ .root.Values.sandbox.drainSeconds | toString | quote }}
        - sh
        - -c
        - |
          longhaul host drain "$LONGHAUL_HOST_ID" --move
          until longhaul host list --json | node -e '
            const { hosts } = JSON.parse(require("node:fs").readFileSync(0, "utf8"))
            const own = hosts.find(({ host }) => host === process.env.LONGHAUL_HOST_ID)
            process.exit(own === undefined || own.state === "drained" ? 0 : 1)'
          do sleep 5; done
{{- end }}
resources:
  {{- toYaml $own.resources | nindent 2 }}
securityContext:
  {{- include "longhaul.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- include "longhaul.mounts" . | nindent 2 }}
{{- end -}}

{{/* Metadata of a pod: { root, role } */}}
{{- define "longhaul.podMetadata" -}}
labels:
  {{- include "longhaul.labels" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  # Changed settings replace the pods.
  checksum/environment: {{ include (print .root.Template.BasePath "/config.yaml") .root | sha256sum }}
  {{- if .root.Values.ports.metrics }}
  prometheus.io/scrape: "true"
  prometheus.io/port: {{ .root.Values.ports.metrics | toString | quote }}
  {{- end }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "longhaul.podCommon" -}}
{{- $own := get .root.Values (include "longhaul.valuesKey" .) -}}
serviceAccountName: {{ include "longhaul.name" .root }}-{{ .role }}
automountServiceAccountToken: {{ or (and (eq .role "trainer") .root.Values.trainer.jobs.enabled) (and (eq .role "sandbox") (eq .root.Values.sandbox.engine.kind "none")) }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - { name: {{ . }} }
  {{- end }}
{{- end }}
{{- with $own.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Port of a URL, explicit or default. */}}
{{- define "longhaul.urlPort" -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host -}}
{{- if $port -}}{{ trimPrefix ":" $port }}{{- else -}}{{ ternary "443" "80" (eq $url.scheme "https") }}{{- end -}}
{{- end -}}
