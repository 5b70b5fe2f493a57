package fault

// Expect checks what the caller of a change expects of an object against the object as it is in
// the transaction of the change. It returns PRECONDITION_FAILED where they differ. A nil Expect
// expects nothing.
type Expect[T any] func(current T) error

// Check returns what e says of current.
func (e Expect[T]) Check(current T) error {
	if e == nil {
		return nil
	}
	return e(current)
}
