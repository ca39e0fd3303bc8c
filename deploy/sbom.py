#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the list of the packages of Debian whose code is in the programs of a static build: an SBOM
in SPDX 2.3 (JSON), and their licences.

  deploy/sbom.py BUILD VERSION EPOCH FOLDER    writes FOLDER/sbom.spdx.json and FOLDER/licences.
                                               EPOCH: the time of the document in seconds

A package counts if a program was linked with an archive of it, which the linker's map says, or was
compiled with one of its headers, which ninja says. The archives that deploy/archives.sh and
deploy/rocksdb.sh build are found by their headers. The system's own packages do not count.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

PROGRAMS = ("duetimed", "duetime")
OF_THE_SYSTEM = ("libc6-dev", "linux-libc-dev")


def lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def files_in_programs(build: pathlib.Path) -> set[str]:
    found = set()
    for line in lines("ninja", "-C", str(build), "-t", "deps"):
        if line.startswith("    /usr/"):
            found.add(os.path.normpath(line.strip()))
    for program in PROGRAMS:
        archives = re.findall(r"^(/\S+\.a)\(", (build / f"{program}.map").read_text(), re.MULTILINE)
        if not archives:
            raise SystemExit(f"sbom: the map of {program} names no archive")
        found.update(os.path.normpath(archive) for archive in archives)
    return {name for name in found if name.startswith("/usr/")}


def packages_of(files: set[str]) -> list[str]:
    found = set()
    for line in lines("dpkg-query", "--search", *sorted(files)):
        owners, _, _ = line.partition(": ")
        found.update(owner.split(":")[0] for owner in owners.split(", "))
    return sorted(found - set(OF_THE_SYSTEM))


def entry(package: str) -> dict:
    form = "${source:Package} ${source:Version} ${Version} ${Architecture}"
    source, source_version, version, architecture = lines(
        "dpkg-query", "--show", "--showformat", form, package)[0].split()
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', package)}",
        "name": package,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "sourceInfo": f"built from the Debian source package {source} {source_version}",
        "comment": f"licence: licences/{package}",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{package}@{version.replace('+', '%2B')}"
                                f"?arch={architecture}",
        }],
    }


def main() -> None:
    build, version, epoch = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    folder = pathlib.Path(sys.argv[4])
    packages = packages_of(files_in_programs(build))
    (folder / "licences").mkdir(parents=True, exist_ok=True)
    for package in packages:
        copy = folder / "licences" / package
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", copy)
        # The texts that Debian keeps once for all packages.
        for name in re.findall(r"(?:/common-licenses/|^License: )([\w.-]*\w)", copy.read_text(),
                               re.MULTILINE):
            text = pathlib.Path("/usr/share/common-licenses") / name
            if text.exists():
                shutil.copyfile(text, folder / "licences" / name)
    entries = [entry(package) for package in packages]
    itself = {
        "SPDXID": "SPDXRef-duetime",
        "name": "duetime",
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
    }
    digest = hashlib.sha256(json.dumps(entries).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"duetime-{version}",
        "documentNamespace": f"https://duetime.example/sbom/{version}/{digest}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: deploy/sbom.py"],
        },
        "packages": [itself, *entries],
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
             "relatedSpdxElement": "SPDXRef-duetime"},
            *({"spdxElementId": "SPDXRef-duetime", "relationshipType": "CONTAINS",
               "relatedSpdxElement": one["SPDXID"]} for one in entries),
        ],
    }
    (folder / "sbom.spdx.json").write_text(json.dumps(document, indent=1) + "\n")


main()
