#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks deploy/kubernetes and the chart in deploy/helm: kustomize and helm make the objects, kubeconform holds them against the
# schemas of the oldest and the newest Kubernetes, and the programs run with the configuration that the objects hold. Cells run on
# three brokers of Apache Kafka and behind HAProxy, on the loopback.
#
#   check.sh FOLDER DUETIMED DUETIME PART   makes the tools in FOLDER unless they are there, which needs the network. PART is
#                                           `objects`: all but the cells, or `play`: the cells on their brokers, or
#                                           those of them that DUETIME_PLAY names
#
# The versions are the last ones that Debian's Go 1.19 compiles; Go 1.26 compiles them, too. The schemas of Kubernetes are those
# of PyPI's kubernetes-validate; that of a ServiceMonitor is in the operator's Go module.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mkdir -p "${1:?the folder for the tools}" && cd "$1" && pwd)
duetimed=$(realpath "${2:?the program duetimed}")
duetime=$(realpath "${3:?the program duetime}")
readonly part=${4:?objects or play}
cd "$here/../../.."
# shellcheck source=deploy/cell/brokers.sh
source deploy/cell/brokers.sh

readonly oldest=1.29.0 newest=1.37.0
readonly operator=github.com/prometheus-operator/prometheus-operator

install_tools() {
  local tool
  # Go's checksum database vouches for the modules.
  for tool in github.com/yannh/kubeconform/cmd/kubeconform@v0.6.3 sigs.k8s.io/kustomize/kustomize/v5@v5.0.3 \
    helm.sh/helm/v3/cmd/helm@v3.12.3; do
    GOBIN=$folder GOFLAGS=-buildvcs=false go install "$tool"
  done
  python3 -m venv --clear "$folder/venv"
  "$folder/venv/bin/pip" download --quiet --no-deps --require-hashes --dest "$folder" --requirement "$here/schemas.txt"
  GOFLAGS=-mod=mod go mod download -json "$operator@v0.74.0" >"$folder/operator.json"
  python3 "$here/schemas.py" "$folder" "$oldest" "$newest"
  cp "${BASH_SOURCE[0]}" "$folder/installed.sh"
}

# conform TITLE : the objects on stdin.
conform() {
  local version objects
  objects=$(cat)
  for version in "$oldest" "$newest"; do
    "$folder/kubeconform" -strict -summary -kubernetes-version "$version" \
      -schema-location "$folder/schemas/{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json" \
      -schema-location "$folder/schemas/{{ .ResourceKind }}{{ .KindSuffix }}.json" <<<"$objects" >"$folder/report" || {
      cat "$folder/report"
      echo "check.sh: $1, Kubernetes $version" >&2
      return 1
    }
    sed "s|^|$1, Kubernetes $version: |" "$folder/report"
  done
}

# chart [--set ...] : the chart's objects.
chart() {
  "$folder/helm" template duetime deploy/helm/duetime --kube-version "$oldest" --namespace queues "$@"
}

# refused TITLE TEXT COMMAND... : must fail, and say TEXT.
refused() {
  if "${@:3}" >"$folder/refusal" 2>&1 || ! grep --quiet --fixed-strings "$2" "$folder/refusal"; then
    cat "$folder/refusal"
    echo "check.sh: $1 was not refused, or for another reason" >&2
    return 1
  fi
}

# with COMPONENTS [LINE...] : the base with these components, and with more lines of a kustomization.
with() {
  local overlay=$folder/overlay
  mkdir -p "$overlay"
  printf '%s\n' 'resources: [../base]' "components: [$1]" "${@:2}" >"$overlay/kustomization.yaml"
  rm -rf "$folder/base" && cp -r deploy/kubernetes "$folder/base"
  "$folder/kustomize" build "$overlay"
}

# play_cell NAME : the objects in NAME.yaml, on brokers that run.
play_cell() {
  python3 "$here/play_cell.py" "$duetimed" "$duetime" "$haproxy" "$brokers" "$folder/$1.yaml"
}

end() {
  stop_brokers
  rm -rf "$broker_folder"
}

cmp --quiet "${BASH_SOURCE[0]}" "$folder/installed.sh" || install_tools
export HELM_CACHE_HOME=$folder/helm-cache HELM_CONFIG_HOME=$folder/helm-config HELM_DATA_HOME=$folder/helm-data

# The objects of three cells.
make_cells() {
  with '../base/cell, ../base/monitoring' 'configMapGenerator:' '  - name: duetime-brokers' '    behavior: merge' \
    '    literals: [cell_brokers=kafka:9093]' >"$folder/cell.yaml"
  grep --quiet 'cell_brokers: kafka:9093' "$folder/cell.yaml"
  chart --set cell.enabled=true,cell.brokers=kafka:9093 >"$folder/chart-cell.yaml"
  chart --set cell.enabled=true,cell.brokers=kafka:9092,cell.kafka.secretName=,tls.secretName=,access.secretName= \
    --set insecureNonloopback=true,networkPolicy.enabled=false >"$folder/open-cell.yaml"
}

check_objects() {
  "$folder/kustomize" build deploy/kubernetes >"$folder/base.yaml"
  conform "the base" <"$folder/base.yaml"
  with ../base/monitoring | conform "the base with its ServiceMonitor"
  conform "the cell" <"$folder/cell.yaml"
  "$folder/kustomize" build deploy/kubernetes/gateway | conform "the gateway"
  conform "the gateway at the cells" <deploy/kubernetes/gateway/from-gateway.yaml
  # Or the checks above check nothing.
  refused "a field that does not exist" readonlyRootFilesystem conform "" < <(sed 's/readOnlyRootFilesystem/readonlyRootFilesystem/' "$folder/base.yaml")

  "$folder/helm" lint --strict --quiet deploy/helm/duetime
  chart >"$folder/chart.yaml"
  conform "the chart" <"$folder/chart.yaml"
  chart --set serviceMonitor.enabled=true,serviceMonitor.labels.release=p,service.type=LoadBalancer,storage.className=fast \
    --set nodeSelector.disk=fast,priorityClassName=high,podLabels.a=b,podAnnotations.a=b,service.annotations.a=b \
    --set imagePullSecrets[0].name=pull,access.secretName=,config='due_max = 100000' >"$folder/certificates.yaml"
  conform "the chart with all of its values" <"$folder/certificates.yaml"
  refused "a value that does not exist" nodeselector chart --set nodeselector.disk=fast
  refused "a chart without TLS" "set insecureNonloopback=true" chart --set tls.secretName=
  conform "the chart with a cell" <"$folder/chart-cell.yaml"
  refused "a cell without brokers" "cell.brokers is empty" chart --set cell.enabled=true
  conform "the chart with a cell without TLS" <"$folder/open-cell.yaml"
  chart --set tls.secretName=,access.secretName=,insecureNonloopback=true,networkPolicy.enabled=false >"$folder/open.yaml"
  conform "the chart without TLS" <"$folder/open.yaml"

  python3 "$here/play.py" "$duetimed" "$duetime" "$folder"/{base,chart,certificates,open}.yaml
}

play_cells() {
  haproxy=$(PATH=$PATH:/usr/sbin command -v haproxy)
  require_java
  get_kafka
  broker_folder=$(mktemp -d "${TMPDIR:-/tmp}/duetime-brokers.XXXXXX")
  trap end EXIT
  start_brokers "$broker_folder"
  # Pods that are ready only while they lead would never all be ready. So the check would notice.
  sed 's|path: /cellz|path: /readyz|' "$folder/cell.yaml" >"$folder/never-ready.yaml"
  local name
  for name in ${DUETIME_PLAY:-cell chart-cell open-cell never-ready}; do
    case $name in
      never-ready) refused "a cell whose standbys are not ready" "all are ready" play_cell never-ready ;;
      *) play_cell "$name" ;;
    esac
  done
}

make_cells
case $part in
  objects) check_objects ;;
  play) play_cells ;;
esac
