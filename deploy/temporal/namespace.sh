#!/bin/sh
# Makes the service's namespace in a new cluster. The service keeps its own records
# in Postgres, so Temporal may forget closed workflows soon.
set -eu

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 72h
