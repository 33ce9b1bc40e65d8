package sync

import (
	"github.com/trueup/trueup/source/mask"
	"github.com/trueup/trueup/sync/v1alpha1"
)

// maskStatus hides what the messages of a status repeat.
func maskStatus(m *mask.Mask, s *v1alpha1.ApplicationStatus) {
	if m == nil {
		return
	}
	hide := func(texts ...*string) {
		for _, t := range texts {
			*t = m.Text(*t)
		}
	}
	hide(&s.Health.Message)
	for i := range s.Conditions {
		hide(&s.Conditions[i].Message)
	}
	for i := range s.Resources {
		hide(&s.Resources[i].Message)
	}
	for i := range s.Drift {
		hide(&s.Drift[i].Reason)
	}
	for i := range s.History {
		hide(&s.History[i].Message)
	}
	if s.OperationState != nil {
		hide(&s.OperationState.Message)
	}
	if s.Hooks != nil {
		hide(&s.Hooks.Message)
		for i := range s.Hooks.Hooks {
			hide(&s.Hooks.Hooks[i].Message)
		}
	}
	if s.LastRequest != nil {
		hide(&s.LastRequest.Message)
	}
}
