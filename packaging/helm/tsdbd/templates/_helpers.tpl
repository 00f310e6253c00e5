{{- define "tsdbd.name" -}}
{{- if contains "tsdbd" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tsdbd" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "tsdbd.selector" -}}
app.kubernetes.io/name: tsdbd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tsdbd.labels" -}}
{{ include "tsdbd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tsdbd.secret" -}}
{{- .Values.cluster.existingSecret | default (printf "%s-cluster" (include "tsdbd.name" .)) }}
{{- end }}

{{- /* The nodes as cluster.join has them, by the names that the headless service gives. */ -}}
{{- define "tsdbd.join" -}}
{{- $name := include "tsdbd.name" . }}
{{- range $i := until (int .Values.replicas) }}
{{- if $i }},{{ end }}{{ printf "%s-%d=%s-%d.%s-nodes.%s.svc.%s:8088" $name $i $name $i $name $.Release.Namespace $.Values.cluster.domain }}
{{- end }}
{{- end }}
