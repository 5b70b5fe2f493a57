package openapi

import "context"

// ImportWithin is Import with a limit of its own on the work, whatever the size of the document.
func ImportWithin(ctx context.Context, in ImportInput, limit int) (*Imported, error) {
	return importWithin(in, &work{ctx: ctx, spare: limit, limit: limit, bytes: maxBytes})
}

// ImportCounted is Import, and returns how much work it took and how much it might have taken.
func ImportCounted(ctx context.Context, in ImportInput) (im *Imported, spent, most int, err error) {
	w := newWork(ctx)
	im, err = importWithin(in, w)
	return im, w.spent, w.most(), err
}
