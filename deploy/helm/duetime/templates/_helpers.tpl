{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "duetime.name" -}}
{{- if contains "duetime" .Release.Name -}}{{ .Release.Name }}{{- else -}}{{ .Release.Name }}-duetime{{- end -}}
{{- end }}

{{- define "duetime.selector" -}}
app.kubernetes.io/name: duetime
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "duetime.labels" -}}
{{ include "duetime.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "duetime.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "duetime.config" -}}
data_dir = "/var/lib/duetime/store"
listen = ["0.0.0.0:7788", "unix:/tmp/duetime.sock"]
metrics_listen = "0.0.0.0:7789"
metrics_insecure_nonloopback = true
{{- if .Values.tls.secretName }}
tls_cert = "/etc/duetime/tls/tls.crt"
tls_key = "/etc/duetime/tls/tls.key"
tls_client_ca = "/etc/duetime/tls/ca.crt"
tls_client_auth = {{ ternary "request" "require" (ne .Values.access.secretName "") | quote }}
{{- end }}
{{- if .Values.access.secretName }}
access_file = "/etc/duetime/access/access.toml"
tokens_file = "/etc/duetime/access/tokens.toml"
audit_log = "stderr"
{{- end }}
{{- if not .Values.tls.secretName }}
{{- if not .Values.insecureNonloopback }}
{{- fail "tls.secretName is empty: any pod that reaches the port could read, cancel and settle every message. Name a Secret, or set insecureNonloopback=true" }}
{{- end }}
insecure_nonloopback = true
{{- end }}
log_format = "json"
{{- with .Values.config }}
{{ . }}
{{- end }}
{{- end }}
