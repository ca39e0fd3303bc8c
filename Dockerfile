# SPDX-License-Identifier: Apache-2.0
#
# docker build -t duetime .
# docker run --name duetime --read-only --tmpfs /tmp --cap-drop=ALL --security-opt=no-new-privileges \
#   -v duetime:/var/lib/duetime duetime
# docker exec duetime duetime info
#
# As it comes, the daemon listens on a Unix socket inside the container only, for `docker exec` and the health check.
# To open it to others add --listen with TLS files, or with --insecure-nonloopback as deploy/compose.yaml does.
FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh unit
COPY . .
# The fast tests are part of the build: an image that exists has passed them.
RUN cmake --preset release -DDUETIME_BENCH=OFF \
    && cmake --build --preset release \
    && ctest --preset release --label-regex 'unit|contract|scenario' \
    && strip --strip-debug -o /usr/local/bin/duetimed build/release/server/duetimed \
    && strip --strip-debug -o /usr/local/bin/duetime build/release/client/cli/duetime \
    && mkdir -p client/console/dist

FROM debian:12-slim
COPY deploy/install-deps.sh /tmp/
# 65532: an id that owns nothing else. Docker copies the directory, with its owner, into a new volume. The file "init"
# lets the daemon create its store there, once. A directory of the host that is mounted there must belong to 65532, and
# needs the daemon's --init the first time: after the name of the image, because `docker run` has an --init of its own.
RUN /tmp/install-deps.sh runtime \
    && rm -rf /var/lib/apt/lists/* /tmp/install-deps.sh \
    && install -d -o 65532 -g 65532 -m 0700 /var/lib/duetime \
    && install -o 65532 -g 65532 -m 0600 /dev/null /var/lib/duetime/init
COPY --from=build /usr/local/bin/duetimed /usr/local/bin/duetime /usr/bin/
# The page of `duetime console`, if it was built before the image. For a container with the network of its host.
COPY --from=build /src/client/console/dist /usr/share/duetime/console
COPY LICENSE /usr/share/doc/duetime/
USER 65532:65532
VOLUME /var/lib/duetime
EXPOSE 7788 7789
STOPSIGNAL SIGTERM
# Not healthy while it starts or drains, and after its storage failed. The socket needs no certificate.
ENV DUETIME_SERVER=unix:/tmp/duetime.sock
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD duetime info --timeout 2s --json | grep -q '"state":"SERVING_STATE_SERVING"'
ENTRYPOINT ["duetimed", "--data-dir=/var/lib/duetime", "--listen=unix:/tmp/duetime.sock"]
