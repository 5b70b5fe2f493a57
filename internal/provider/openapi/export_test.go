package openapi

import "context"

// ImportWithin is Import with a limit of its own on the work.
func ImportWithin(ctx context.Context, in ImportInput, limit int) (*Imported, error) {
	return importWithin(in, &work{ctx: ctx, limit: limit, bytes: maxBytes})
}
