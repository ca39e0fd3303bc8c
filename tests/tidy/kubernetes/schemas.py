#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the JSON schemas where kubeconform looks for them.

  schemas.py FOLDER VERSION...   from FOLDER/kubernetes_validate-*.whl and from the module that FOLDER/operator.json names
"""

import glob
import json
import os
import sys
import zipfile


def closed(schema):
    """The schema, which then refuses fields that it does not name, as the API server warns of them."""
    if isinstance(schema, dict):
        if "properties" in schema and "x-kubernetes-preserve-unknown-fields" not in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            closed(part)
    elif isinstance(schema, list):
        for part in schema:
            closed(part)
    return schema


def main():
    folder, versions = sys.argv[1], sys.argv[2:]
    wheel = zipfile.ZipFile(glob.glob(os.path.join(folder, "kubernetes_validate-*.whl"))[0])
    for version in versions:
        prefix = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict/"
        into = os.path.join(folder, "schemas", f"v{version}")
        os.makedirs(into, exist_ok=True)
        names = [name for name in wheel.namelist() if name.startswith(prefix)]
        assert len(names) > 100, prefix
        for name in names:
            # The schemas give an address of the network as theirs, and of their definitions. Here these are beside them.
            schema = json.loads(wheel.read(name).replace(b'"/api/_definitions.json#', b'"_definitions.json#'))
            schema.pop("$id", None)
            with open(os.path.join(into, os.path.basename(name)), "w", encoding="utf-8") as file:
                json.dump(schema, file)
    with open(os.path.join(folder, "operator.json"), encoding="utf-8") as file:
        operator = json.load(file)["Dir"]
    with open(os.path.join(operator, "jsonnet/prometheus-operator/servicemonitors-crd.json"), encoding="utf-8") as file:
        monitor = json.load(file)["spec"]["versions"][0]
    assert monitor["name"] == "v1"
    # The metadata is the API server's; the definition of the operator only says that it is an object.
    with open(os.path.join(folder, "schemas", "servicemonitor-monitoring-v1.json"), "w", encoding="utf-8") as file:
        json.dump(closed(monitor["schema"]["openAPIV3Schema"]), file)


if __name__ == "__main__":
    main()
