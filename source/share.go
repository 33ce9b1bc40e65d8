package source

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// share runs f once for all who ask for the same at the same time. f outlives the caller that started it, as others may
// wait for it too; each caller waits no longer than its own context.
func share[T any](ctx context.Context, flights *singleflight.Group, timeout time.Duration, key string, f func(context.Context) (T, error)) (T, error) {
	done := flights.DoChan(key, func() (_ any, err error) {
		defer func() {
			// What servers answer is parsed here, by libraries that are many: a panic would end the process, for all.
			if p := recover(); p != nil {
				err = fmt.Errorf("what the server answers makes the agent panic: %v", p)
			}
		}()
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, fmt.Errorf("no answer within %s", timeout))
		defer cancel()
		v, err := f(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return v, err
	})
	select {
	case res := <-done:
		v, _ := res.Val.(T)
		return v, res.Err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
