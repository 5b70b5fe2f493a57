# The product binary alone: static, without a shell, run by nobody in particular.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY . .
# The commit for agentruntime --version, because the context has no repository.
ARG COMMIT=""
# No separate download step: the module list also names the Temporal server, which
# this binary does not link and which need not be fetched.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X agentruntime/internal/process/cli.commit=${COMMIT}" -o /out/agentruntime ./cmd/agentruntime

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/agentruntime /agentruntime
USER 65532:65532
EXPOSE 8080
# Asks /readyz. A container that is not the API switches this off.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/agentruntime", "health"]
ENTRYPOINT ["/agentruntime"]
CMD ["api"]
