# gdbext with a GDB, in an image of Python: docker build -t gdbext . (or podman, or buildah)
# docs/containers-and-clusters.md has the commands that inspect other containers with it.
FROM python:3.12-slim AS wheel
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/gdbext-*.whl)[gdb]" && rm -r /wheels
# processes of other users need --user 0
USER 1000:1000
WORKDIR /tmp
ENTRYPOINT ["gdbext"]
CMD ["--help"]
