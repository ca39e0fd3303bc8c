# SPDX-License-Identifier: Apache-2.0
#
# docker build -t duetime .          without an engine at hand: deploy/image.sh
# docker run --name duetime --read-only --tmpfs /tmp --cap-drop=ALL --security-opt=no-new-privileges \
#   -v duetime:/var/lib/duetime duetime
# docker exec duetime duetime info
#
# A server to try things on, which keeps nothing, with its console at http://127.0.0.1:7790/:
#
#   docker run -p 127.0.0.1:7788:7788 -p 127.0.0.1:7790:7790 duetime dev
#
# As it comes, the daemon listens on a Unix socket inside the container only, for `docker exec` and the health check, so that -p
# alone reaches nothing. For one machine, publish on the loopback and say that whoever reaches the port may do everything:
#
#   docker run -p 127.0.0.1:7788:7788 ... duetime --listen=0.0.0.0:7788 --insecure-nonloopback
#
# For others, -p 7788:7788 and, in place of that flag, certificates: -v /etc/duetime/tls:/tls:ro ... duetime
# --listen=0.0.0.0:7788 --tls-cert=/tls/tls.crt --tls-key=/tls/tls.key --tls-client-ca=/tls/ca.crt. User 65532 reads them.
ARG BASE=debian:13-slim

# RocksDB without the assertions of Debian's build. docker build --build-arg ROCKSDB=debian takes Debian's own, which saves 20
# minutes and does not need SSE4.2 and CLMUL of the processor.
FROM $BASE AS rocksdb
WORKDIR /src
COPY deploy/install-deps.sh deploy/debian-source.sh deploy/rocksdb.sh deploy/
ARG ROCKSDB=rebuilt
RUN mkdir -p /rocksdb && if [ "$ROCKSDB" = rebuilt ]; then deploy/rocksdb.sh /rocksdb && rm -rf /rocksdb/source; fi

# The page of the console, with the packages of its lock file.
FROM $BASE AS page
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh page
COPY client/console client/console
RUN cd client/console && npm ci --ignore-scripts --no-audit --no-fund && npm run build

FROM $BASE AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh unit
COPY . .
# The fast tests are part of the build: an image that exists has passed them.
RUN cmake --preset release -DDUETIME_BENCH=OFF -DDUETIME_PCH=tests \
    && cmake --build --preset release --target duetimed duetime programs_unit programs_contract programs_scenario \
    && ctest --preset release --label-regex 'unit|contract|scenario' \
    && strip --strip-debug -o /usr/bin/duetimed build/release/server/duetimed \
    && strip --strip-debug -o /usr/bin/duetime build/release/client/cli/duetime
COPY --from=page /src/client/console/dist /usr/share/duetime/console
RUN mkdir -p /usr/share/doc/duetime && cp LICENSE /usr/share/doc/duetime && cp deploy/image-entry.sh /usr/bin/duetime-image
# What goes into the image, in /image: no package manager, and of the packages only the files that the programs load.
COPY --from=rocksdb /rocksdb /rocksdb
RUN deploy/image-root.sh /image /rocksdb

FROM scratch
COPY --from=build /image/ /
# 65532: an id that owns nothing else. Docker copies the directory, with its owner, into a new volume. The file "init"
# lets the daemon create its store there, once. A directory of the host that is mounted there must belong to 65532, and
# needs the daemon's --init the first time: after the name of the image, because `docker run` has an --init of its own.
COPY --from=build --chown=65532:65532 /data/ /var/lib/
USER 65532:65532
VOLUME /var/lib/duetime
EXPOSE 7788 7789 7790
STOPSIGNAL SIGTERM
# Not healthy while it starts or drains, and after its storage failed. The socket needs no certificate.
ENV DUETIME_SERVER=unix:/tmp/duetime.sock
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD duetime info --timeout 2s --json | grep -q '"state":"SERVING_STATE_SERVING"'
ENTRYPOINT ["/usr/bin/duetime-image"]
