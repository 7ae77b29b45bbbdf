# The image of nodetrail, for a cluster (deploy/) and for docker-compose.yml: built from the sources, so that it needs docker alone.
#
#   docker build --build-arg VERSION=$(git describe --tags --always) -t nodetrail .
FROM golang:1.26.5-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/nodetrail ./cmd/nodetrail \
 && mkdir -p /out/data /out/play

# Certificate authorities, time zones, a user, and no shell.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/nodetrail /nodetrail
# A named volume that is mounted here takes over whose the folder is.
COPY --from=build --chown=65532:65532 /out/data /var/lib/nodetrail
COPY --from=build --chown=65532:65532 /out/play /var/lib/play
USER 65532:65532
ENTRYPOINT ["/nodetrail"]
