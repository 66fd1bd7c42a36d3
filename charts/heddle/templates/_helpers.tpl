{{- define "heddle.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "heddle.labels" -}}
app.kubernetes.io/name: heddle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "heddle.selector" -}}
app.kubernetes.io/name: heddle
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The names that the admission policies compare with. */}}
{{- define "heddle.controllerUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:heddle-controller
{{- end -}}
{{- define "heddle.agentUser" -}}
system:serviceaccount:{{ .Release.Namespace }}:heddle-agent
{{- end -}}

{{/* A CEL list of strings. The schema keeps quotes and backslashes out of its items. */}}
{{- define "heddle.celList" -}}
[{{ range $i, $v := . }}{{ if $i }}, {{ end }}'{{ $v }}'{{ end }}]
{{- end -}}

{{/* The drivers whose devices Heddle allocates, as a CEL list. */}}
{{- define "heddle.managedDrivers" -}}
{{- include "heddle.celList" (prepend .Values.managedDrivers "accelerator.heddle.dev") -}}
{{- end -}}

{{/* The vendor words that have a class of their own, as JSON: the catalogue's and the administrator's. */}}
{{- define "heddle.vendors" -}}
{{- $own := list "amd" "ascend" "aws" "biren" "cambricon" "enflame" "google" "habana" "hygon" "iluvatar" "intel" "kunlun" "metax" "mthreads" "nvidia" "thead" "vastai" -}}
{{- concat $own (keys .Values.catalog | sortAlpha) | uniq | toJson -}}
{{- end -}}

{{/* The classes that the chart makes, as a CEL list. */}}
{{- define "heddle.classNames" -}}
{{- $names := list "heddle" -}}
{{- range include "heddle.vendors" . | fromJsonArray }}{{ $names = append $names (printf "heddle-%s" .) }}{{ end -}}
{{- include "heddle.celList" $names -}}
{{- end -}}

{{/* How the names that pods may ask by begin, as JSON. A vendor of the administrator says its own in `domains`. */}}
{{- define "heddle.prefixes" -}}
{{- $prefixes := .Values.webhook.resourcePrefixes -}}
{{- range $vendor, $text := .Values.catalog -}}
{{- $file := fromYaml $text -}}
{{- if hasKey $file "Error" }}{{ fail (printf "catalog.%s: %s" $vendor $file.Error) }}{{ end -}}
{{- if ne (toString $file.vendor) $vendor }}{{ fail (printf "catalog.%s: its text is of the vendor %v" $vendor $file.vendor) }}{{ end -}}
{{- range $domain := $file.domains -}}
{{- if not (regexMatch "^[a-z0-9.-]+/$" (toString $domain.prefix)) }}{{ fail (printf "catalog.%s: domains: %v is no domain that ends with /, such as acme.example/" $vendor $domain.prefix) }}{{ end -}}
{{- range $start := $domain.starts | default (list "") -}}
{{- $prefixes = append $prefixes (printf "%s%s" $domain.prefix (lower $start)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $prefixes | uniq | toJson -}}
{{- end -}}

{{/* A CEL regular expression, compiled once, for names that begin like one of ours, in any case. */}}
{{- define "heddle.ourKeys" -}}
r'(?i)^({{ range $i, $p := include "heddle.prefixes" . | fromJsonArray }}{{ if $i }}|{{ end }}{{ regexQuoteMeta $p }}{{ end }})'
{{- end -}}

{{/* True for pods that name a translated resource. */}}
{{- define "heddle.resourceMatch" -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
  [c.?resources.?limits.orValue({}), c.?resources.?requests.orValue({})].exists(list,
    list.exists(r, r.matches({{ include "heddle.ourKeys" . }}))))
{{- end -}}

{{/* True for the pods that the webhook may have to change, and for those that pretend to have been changed. A misspelled
resource begins like a right one; other plugins' resources of the vendor (nvidia.com/hostdev ...) do not. */}}
{{- define "heddle.podMatch" -}}
{{- $prefixes := include "heddle.celList" .Values.webhook.annotationPrefixes -}}
{{ include "heddle.resourceMatch" . }} ||
object.metadata.?annotations.orValue({}).exists(k,
  k in {{ include "heddle.celList" .Values.webhook.annotations }} || {{ $prefixes }}.exists(p, k.startsWith(p)) ||
  k.matches({{ include "heddle.ourKeys" . }})) ||
object.metadata.?labels.orValue({}).exists(k, k.startsWith('heddle.dev/')) ||
object.spec.?schedulingGates.orValue([]).exists(g, g.name.startsWith('heddle.dev/')) ||
({{ include "heddle.gangMatch" . }})
{{- end -}}

{{/* True for members of gangs, however declared, with claims that users wrote: those may be on Heddle's devices. */}}
{{- define "heddle.gangMatch" -}}
size(object.spec.?resourceClaims.orValue([])) > 0 && (object.spec.?schedulingGroup.?podGroupName.orValue('') != '' ||
  [object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({})].exists(m, m.exists(k,
    k in {{ include "heddle.celList" (list "scheduling.k8s.io/group-name" "scheduling.volcano.sh/group-name"
      "scheduling.x-k8s.io/pod-group" "pod-group.scheduling.sigs.k8s.io/name" "pod-group.scheduling.sigs.k8s.io"
      "kueue.x-k8s.io/pod-group-name" "leaderworkerset.sigs.k8s.io/name" "jobset.sigs.k8s.io/jobset-name"
      "training.kubeflow.org/job-name") }})))
{{- end -}}

{{/* True for claims and templates that name Heddle's classes or its driver. */}}
{{- define "heddle.claimMatch" -}}
[request.kind.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec].exists(s,
  s.?devices.?requests.orValue([]).exists(r,
    ([r.?exactly.?deviceClassName.orValue('')] + r.?firstAvailable.orValue([]).map(a, a.deviceClassName)).exists(c,
      c == 'heddle' || c.startsWith('heddle-'))) ||
  s.?devices.?config.orValue([]).exists(c, c.?opaque.?driver.orValue('') == 'accelerator.heddle.dev'))
{{- end -}}

{{/* True for classes that select Heddle's devices or configure its driver. */}}
{{- define "heddle.classMatch" -}}
object.spec.?selectors.orValue([]).exists(s, s.?cel.?expression.orValue('').contains('accelerator.heddle.dev')) ||
object.spec.?config.orValue([]).exists(c, c.?opaque.?driver.orValue('') == 'accelerator.heddle.dev')
{{- end -}}

{{/* A kubelet's mirror of a static pod is running already: nothing in it can be changed. */}}
{{- define "heddle.notMirror" -}}
!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}) && 'system:nodes' in request.userInfo.groups)
{{- end -}}

{{- define "heddle.clientConfig" -}}
{{- if .root.Values.webhook.url -}}
url: {{ printf "%s%s" (trimSuffix "/" .root.Values.webhook.url) .path | quote }}
{{- else -}}
service:
  namespace: {{ .root.Release.Namespace }}
  name: heddle-webhook
  path: {{ .path }}
  port: 443
{{- end }}
{{- end -}}
