// Package expr compiles expressions in CEL (github.com/google/cel-go) that users write. They are type-checked and bounded in cost before they run.
//
// What goes in: an environment with the fields that an expression sees, and its text. What comes out: a program, or what is wrong and where. It
// imports codes.
package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/interpreter"

	"github.com/nodetrail/nodetrail/codes"
)

// Bounds of expressions.
const (
	// MaxBytes bounds the text of an expression.
	MaxBytes = 4 << 10
	// MaxList is how many elements a list has for an estimate of cost.
	MaxList = 64
)

// Error is what is wrong with an expression.
type Error struct {
	// Line and Column are where, both from 1; 0 where it is the expression as a whole.
	Line, Column int
	Text         string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text)
}

// Check compiles an expression that is true or false. Its cost is in cel-go's units: about one for each operator, and one for ten characters that are
// looked at. An expression that may cost more than maxCost with texts of [codes.MaxValue] bytes is refused. An error is an *Error.
func Check(env *cel.Env, text string, maxCost uint64) (*cel.Ast, error) {
	if len(text) > MaxBytes {
		return nil, &Error{Text: fmt.Sprintf("the expression is longer than %d bytes", MaxBytes)}
	}
	ast, issues := env.Compile(text)
	if all := issues.Errors(); len(all) > 0 {
		return nil, &Error{all[0].Location.Line(), all[0].Location.Column() + 1, loops(firstLine(all[0].Message))}
	}
	if ast.OutputType() != cel.BoolType {
		return nil, &Error{Text: fmt.Sprintf("the expression is a %s, not true or false", ast.OutputType())}
	}
	cost, err := env.EstimateCost(ast, sizes{})
	if err != nil {
		return nil, &Error{Text: firstLine(err.Error())}
	}
	if cost.Max > maxCost {
		return nil, &Error{Text: fmt.Sprintf("the expression costs up to %d units, more than %d: make it simpler", cost.Max, maxCost)}
	}
	return ast, nil
}

// loops adds what is missing from cel-go's message about a loop, which is an unknown name where its macro is left out.
func loops(message string) string {
	for _, name := range []string{"all", "exists", "exists_one", "map", "filter"} {
		if strings.HasPrefix(message, "undeclared reference to '"+name+"'") {
			return message + ": loops are not allowed"
		}
	}
	return message
}

// Program makes a program of a checked expression. It stops with an error that [TooCostly] knows when it costs more than maxCost.
func Program(env *cel.Env, ast *cel.Ast, maxCost uint64) (cel.Program, error) {
	p, err := env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, &Error{Text: firstLine(err.Error())}
	}
	return p, nil
}

// TooCostly reports whether an evaluation was stopped because of its cost.
func TooCostly(err error) bool {
	var stopped interpreter.EvalCancelledError
	return errors.As(err, &stopped) && stopped.Cause == interpreter.CostLimitExceeded
}

// firstLine leaves out the expression that cel-go draws below an error.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// sizes tells how long fields are at most.
type sizes struct{}

// EstimateSize implements checker.CostEstimator.
func (sizes) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	if t := n.Type(); t != nil && t.Kind() == cel.ListKind {
		return &checker.SizeEstimate{Min: 0, Max: MaxList}
	}
	return &checker.SizeEstimate{Min: 0, Max: codes.MaxValue}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
