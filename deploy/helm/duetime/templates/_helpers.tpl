{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "duetime.name" -}}
{{- if contains "duetime" .Release.Name -}}{{ .Release.Name }}{{- else -}}{{ .Release.Name }}-duetime{{- end -}}
{{- end }}

{{- define "duetime.selector" -}}
app.kubernetes.io/name: duetime
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "duetime.leaderSelector" -}}
app.kubernetes.io/name: duetime-leader
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

{{- define "duetime.haproxy" -}}
{{- $name := include "duetime.name" . -}}
# Connections go to the member that leads: the one whose /readyz answers 200. Bytes pass as they are, so that TLS, certificates and
# tokens stay between the client and the member. A member sees the address of the proxy as the client's.
global
    log stdout format raw local0 notice

defaults
    log global
    mode tcp
    timeout connect 2s
    # Streams of gRPC may be silent. Keepalives of TCP find a client that is gone.
    timeout client 24h
    timeout server 24h
    option clitcpka
    # A client tries again by itself, and learns sooner that no member leads.
    retries 1

resolvers cluster
    parse-resolv-conf
    accepted_payload_size 8192
    hold valid 1s
    hold nx 1s
    hold obsolete 1s

frontend grpc
    bind :7788
    default_backend leader

backend leader
    option httpchk GET /readyz
    http-check expect status 200
    # A member that leads no more closes its connections itself. One whose machine is gone cannot.
    default-server check port 7789 inter 500ms fastinter 200ms downinter 200ms fall 2 rise 1 on-marked-down shutdown-sessions resolvers cluster init-addr none
    # Names of all members. The DNS of the cluster gives the new address after a pod was replaced.
    {{- range $number := until (int .Values.cell.members) }}
    server {{ $name }}-{{ $number }} "{{ $name }}-{{ $number }}.{{ $name }}-headless.{{ $.Release.Namespace }}.svc.{{ $.Values.cell.proxy.clusterDomain }}:7788"
    {{- end }}

# Whether the proxy runs. It is ready also while no member leads.
frontend health
    mode http
    bind :7780
    timeout client 5s
    monitor-uri /healthz
{{- end }}
