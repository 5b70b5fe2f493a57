// Package workercomponent adds the workflows of the controller of workers to the Temporal
// server: none, see package client.
package workercomponent

import "go.uber.org/fx"

// Module is empty.
var Module = fx.Options()
