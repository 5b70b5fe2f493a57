package expression

// Parse reads one expression, without ${ and }. The error says what is wrong and where.
func Parse(source string) (*Expr, *SyntaxError) {
	panic("not yet")
}
