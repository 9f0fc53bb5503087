# One image for training, checks, Jupyter and TensorBoard, on GPU and CPU hosts. Layers go from rarely to often changed:
# system packages, Python environment (5 GB, from the hash lock), code. No `# syntax=` line: it would ask a registry.

# The one place that names the base image. `scripts/pin_base` adds the digest; not pinned until it ran with a connection.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS uv
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY configs/stacks/uv.lock /uv.lock
# A network that inspects TLS passes its CA as the optional secret `ca`; nothing of it stays in a layer.
RUN --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export PIP_CERT=/run/secrets/ca.pem; fi && \
    pip install --no-cache-dir --disable-pip-version-check --require-hashes --target /opt/uv -r /uv.lock

FROM ${BASE_IMAGE} AS system
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# openssh-server makes host keys while it is installed; a key in an image would be everybody's.
RUN apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates htop iotop-c libnss-extrausers openssh-server python3 tini && \
    rm -rf /etc/ssh/ssh_host_* /var/lib/apt/lists/* /var/cache/apt/*

# Any UID may run this image. libnss-extrausers reads names from a file in /tmp (writable on a read-only root, too), and
# ignores UIDs below 500 in it, so a container can give itself a name but nobody root's. Login shells get PATH back.
RUN useradd --uid 1000 --user-group --create-home --shell /bin/bash yolo && chmod 1777 /home/yolo && \
    install -d -m 1777 /workspace && install -d /app /data /opt/manifest && \
    sed -i 's/^\(passwd\|group\):.*/\1: files extrausers/' /etc/nsswitch.conf && \
    install -d /var/lib/extrausers && ln -s /tmp/extrausers/passwd /tmp/extrausers/group /var/lib/extrausers/ && \
    echo 'PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' >/etc/profile.d/venv.sh

# The code with one date, one mode and nothing that depends on who built it: the same tree is the same layer, bit for bit.
FROM system AS code
COPY pyproject.toml /tree/app/
COPY configs /tree/app/configs
COPY examples /tree/app/examples
COPY docs/rules.md /tree/app/docs/
COPY entrypoint /tree/app/entrypoint
COPY diag /tree/app/diag
# Bytecode is made here, a read-only root could not keep it: `diag analyze` starts in two thirds of the CPU time.
RUN python3 -m compileall -q --invalidation-mode checked-hash -s /tree -p / /tree/app/diag /tree/app/entrypoint && \
    chmod -R u=rwX,go=rX /tree && find /tree -exec touch -hd '2020-01-01 00:00:00 UTC' {} +

FROM system AS environment
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
ARG STACK=cu13
COPY configs/stacks/${STACK}.lock /opt/manifest/stack.lock
# Empty UV_NO_CACHE keeps downloads in a build cache (+5 GB, quick rebuilds); 1 spends no disk on it (CI).
ARG UV_NO_CACHE
# Your own package index, if any; unset means the public one.
ARG UV_DEFAULT_INDEX
RUN --mount=type=bind,from=uv,source=/opt/uv,target=/opt/uv \
    --mount=type=cache,target=/root/.cache/uv \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export SSL_CERT_FILE=/run/secrets/ca.pem; fi; \
    if [ -z "${UV_NO_CACHE:-}" ]; then unset UV_NO_CACHE; export UV_LINK_MODE=copy; fi; \
    export PATH="/opt/uv/bin:$PATH" UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT=300; \
    uv venv -q --python /usr/bin/python3.11 /opt/venv; \
    uv pip sync -q --python /opt/venv --require-hashes /opt/manifest/stack.lock; \
    printf '%s %s\n' "$STACK" "$(sha256sum /opt/manifest/stack.lock | cut -d' ' -f1)" >/opt/venv/diag-stack; \
    uv pip freeze --python /opt/venv >/opt/manifest/python.txt; \
    dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' >/opt/manifest/debian.txt; \
    # Only compilers want these: static libraries, headers, protoc, the twin of nvrtc; and nothing in torch is linked to
    # the solver for many GPUs (a test looks at what every library here needs).
    site=/opt/venv/lib/python3.11/site-packages; \
    find "$site/nvidia" \( -name '*.a' -o -name '*.bc' -o -name '*.alt.so*' -o -name 'libcusolverMg.*' \) -delete; \
    find "$site/nvidia" -type d -name include -prune -exec rm -rf {} +; \
    rm -rf "$site"/torch/include "$site"/torch/bin/protoc*; \
    # `diag` runs the code in /app, which is copied last.
    echo /app >/opt/venv/lib/python3.11/site-packages/app.pth; \
    printf '#!/opt/venv/bin/python\nfrom diag.cli import main\n\nraise SystemExit(main())\n' >/opt/venv/bin/diag; \
    chmod 755 /opt/venv/bin/diag

# NVIDIA_*: the toolkit's default gives nvidia-smi but no CUDA. YOLO_*, DO_NOT_TRACK: no installs and no telemetry, ever.
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/home/yolo \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    WORKSPACE=/workspace \
    YOLO_AUTOINSTALL=false \
    YOLO_CONFIG_DIR=/opt/ultralytics \
    MPLCONFIGDIR=/tmp/matplotlib \
    DO_NOT_TRACK=1

# Settings without sync and with TensorBoard, and the two fonts that Ultralytics would fetch at its first plot. The imports leave
# the bytecode (30 MB) of what a training, a check and the services import, which a read-only root could not keep.
RUN --mount=type=bind,source=diag/record/seed_settings.py,target=/tmp/seed.py \
    python /tmp/seed.py "$YOLO_CONFIG_DIR" --root "$WORKSPACE" && \
    python -c 'import msgspec, polars, ultralytics.models.yolo, torch.utils.tensorboard, torch._dynamo, torchvision, \
    jupyterlab.labapp, tensorboard.main'

# What the labels say has to be true: a lock that is not the one named stops the build.
ARG LOCK_SHA256
RUN if [ -n "${LOCK_SHA256:-}" ]; then grep -qx "${STACK} ${LOCK_SHA256}" /opt/venv/diag-stack || \
        { echo "LOCK_SHA256 is not that of configs/stacks/${STACK}.lock; build with scripts/up" >&2; exit 1; }; fi

FROM environment
WORKDIR /workspace
COPY --link --from=code /tree/ /
ARG STACK=cu13
ARG LOCK_SHA256
ARG GIT_REVISION=unknown
ENV GIT_REVISION=${GIT_REVISION}
LABEL org.opencontainers.image.title="yolo-diag" \
      org.opencontainers.image.description="Reproducible Ultralytics training with diagnostics" \
      org.opencontainers.image.licenses="AGPL-3.0-only" \
      org.opencontainers.image.revision="${GIT_REVISION}" \
      diag.stack="${STACK}" \
      diag.lock.sha256="${LOCK_SHA256}"

USER 1000:1000
HEALTHCHECK --interval=5s --timeout=5s --start-period=120s --retries=3 CMD ["/app/entrypoint/healthcheck.sh"]
# Plain tini: with -g the loader workers would get the signal too, and a stop would end as a crash.
ENTRYPOINT ["tini", "--", "/app/entrypoint/entrypoint.sh"]
CMD ["shell"]
