# syntax=docker/dockerfile:1
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=devel COMMIT=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags="-s -w -X main.version=$VERSION -X main.commit=$COMMIT" -o /out/trueup ./cmd/trueup
# ssh asks who it runs as, and a read-only image has nobody to ask.
RUN printf 'trueup:x:65532:65532:trueup:/:/sbin/nologin\n' >/out/passwd

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/passwd /etc/passwd
COPY --from=build /out/trueup /usr/local/bin/trueup
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/trueup"]
CMD ["agent"]
