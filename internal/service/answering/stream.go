package answering

import (
	"context"

	"agentruntime/internal/kernel/model"
)

// stream tells those who follow the reply of what comes.
func (a *Answerer) stream(context.Context, *work) model.Stream { return model.Stream{} }
