"""What the parser's operators and special forms are called in a shape.

Knows sqlglot; imported when a text is read.
"""

from sqlglot import exp

__all__ = ["CHAINS", "FORMS", "OPERATORS"]

OPERATORS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "is distinct from",
    exp.Not: "not",
    exp.Neg: "neg",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
    exp.Escape: "escape",
    exp.Between: "between",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseNot: "~",
    exp.Tuple: "row",
}
CHAINS: dict[type, str] = {exp.And: "and", exp.Or: "or", exp.DPipe: "||"}
FORMS: dict[type, str] = {
    exp.Substring: "substring",
    exp.StrPosition: "position",
    exp.Trim: "trim",
    exp.Overlay: "overlay",
    exp.Ceil: "ceil",
    exp.Floor: "floor",
    exp.Chr: "chr",
    exp.Decode: "decode",
    exp.DecodeCase: "decode",
    exp.Initcap: "initcap",
    exp.Quantile: "percentile",
    exp.ApproxQuantile: "percentile_approx",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.Transform: "transform",
    exp.Array: "array",
    exp.If: "if",
    exp.Concat: "concat",
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
}
