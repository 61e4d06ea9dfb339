{{- define "agentd-gateway.name" -}}
{{- if contains "agentd-gateway" .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{ else }}{{ printf "%s-agentd-gateway" .Release.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "agentd-gateway.selector" -}}
app.kubernetes.io/name: agentd-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agentd-gateway.labels" -}}
{{ include "agentd-gateway.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "agentd-gateway.configuration" -}}
listen = "0.0.0.0:8080"
state_folder = "/var/lib/agentd-gateway"

[admin]
token_file = "/etc/agentd/secrets/admin-token"

[store]
url_file = "/etc/agentd/secrets/store-url"

[limits]
url_file = "/etc/agentd/secrets/limits-url"
durable = {{ .Values.limitsDurable }}

[server]
drain_delay_seconds = {{ .Values.drainDelaySeconds }}
drain_seconds = {{ .Values.drainSeconds }}
{{- range $key, $value := .Values.server }}
{{ $key }} = {{ toJson $value }}
{{- end }}

[metrics]
listen = "0.0.0.0:9100"

{{ .Values.config }}
{{- end }}
