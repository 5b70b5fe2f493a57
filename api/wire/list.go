package wire

import "github.com/google/uuid"

// PageByID reads which page of a list a call asks for, in a list whose ids are UUIDs. before is
// the last item of an earlier page, and nil for the first page.
func (c *Call) PageByID() (limit int, before *uuid.UUID, err error) {
	if limit, err = c.Limit(); err != nil {
		return 0, nil, err
	}
	before, err = c.CursorID()
	return limit, before, err
}

// List answers with a page of a list. view is how an item is shown, and place is where the next page
// continues after it.
func List[T, V any](limit int, page []T, more bool, view func(T) V, place func(T) string) Reply {
	views, last := make([]V, len(page)), ""
	for i, item := range page {
		views[i], last = view(item), place(item)
	}
	return Reply{Data: views, Page: PageAfter(limit, more, last)}
}

// ListByID is List for lists whose ids are UUIDs.
func ListByID[T, V any](limit int, page []T, more bool, view func(T) V, id func(T) uuid.UUID) Reply {
	return List(limit, page, more, view, func(item T) string {
		last := id(item)
		return string(last[:])
	})
}
