package odfbuild;

import java.lang.reflect.Method;
import java.time.DateTimeException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.SparkUpgradeException;
import org.apache.spark.sql.catalyst.InternalRow$;
import org.apache.spark.sql.catalyst.analysis.Star;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAlias;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.CsvToStructs;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.RegExpReplace;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.Sequence;
import org.apache.spark.sql.catalyst.expressions.ToTimestamp;
import org.apache.spark.sql.catalyst.expressions.UnresolvedNamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.XmlToStructs;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.PivotFirst;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.expressions.variant.VariantGet;
import org.apache.spark.sql.catalyst.expressions.xml.XPathExtract;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Pivot;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a logical plan consists of, nested plans, types and options included; `admission.py` judges.
 *
 * A line for each kind, name and place, of which the first is kept: what a name is of, the name, its
 * detail, and where in the SQL text it starts and ends, or -1. What stands behind a temporary view
 * was judged when that was made.
 *
 * As a function it returns a plan or an expression in which no text without a date is a time: Spark
 * would take the day from the clock.
 */
public final class PlanCensus extends scala.runtime.AbstractFunction1 {
    /** How texts begin that Spark reads as times by its clock. */
    private static final String UNDATED =
            "^(?=[\\x00-\\x20\\x7F]*(?:T\\d|\\d{1,2}:|(?i:now|today|tomorrow|yesterday)))";
    private static final Pattern READ_BY_CLOCK = Pattern.compile(UNDATED);
    private static final Pattern TYPE =
            Pattern.compile("(?i)^(?:date|timestamp(?:_ltz|_ntz)?)(?!\\w)");
    private static final int TOGETHER = 500;
    /** Calls of a value and constants that fail for any value if they fail for one that is simple. */
    private static final Set BY_CONSTANTS = new HashSet(Arrays.asList(new String[] {
        "CsvToStructs", "DateFormatClass", "FormatNumber", "FromUnixTime", "FromUTCTimestamp",
        "GetTimestamp", "JsonToStructs", "RLike", "RegExpExtract", "RegExpExtractAll",
        "RegExpInStr", "RegExpReplace", "Sequence", "StringSplit", "StringToMap", "StructsToCsv",
        "StructsToJson", "StructsToXml", "ToUTCTimestamp", "ToUnixTimestamp", "UnixTimestamp",
        "VariantGet", "XmlToStructs",
        "XPathBoolean", "XPathDouble", "XPathFloat", "XPathInt", "XPathList", "XPathLong",
        "XPathShort", "XPathString", "aesEncrypt",
    }));

    private final SparkSession session;
    private final LogicalPlan parsed;
    private Dataset frame;
    private boolean collecting;
    private boolean isConstant;
    private IdentityHashMap heights;
    private TreeMap levels;
    private List tables;
    private List pivots;
    private TreeNode pivot;
    private Set seen;
    private Set classes;
    private ArrayDeque pending;
    private TreeMap found;

    public PlanCensus() {
        this(null, null);
    }

    private PlanCensus(SparkSession session, LogicalPlan parsed) {
        this.session = session;
        this.parsed = parsed;
    }

    /** Let Spark parse a text, and no more. */
    public PlanCensus parse(SparkSession of, String text) throws Exception {
        return new PlanCensus(of, of.sessionState().sqlParser().parsePlan(text));
    }

    /** Let Spark analyse what it parsed; commands, which it would carry out, were refused. */
    public Dataset analyse() {
        frame = Dataset.ofRows(session, parsed);
        return frame;
    }

    /** Return the rows of what was analysed, with its casts of texts to times guarded. */
    public Dataset guarded() {
        LogicalPlan analyzed = frame.queryExecution().analyzed();
        LogicalPlan plan = (LogicalPlan) apply(analyzed);
        if (plan == analyzed) {
            return frame;
        }
        plan.setAnalyzed();
        return Dataset.ofRows(session, plan);
    }

    /** Return a node of a plan with its casts of texts to times guarded, or the node itself. */
    public Object apply(Object node) {
        if (node instanceof LogicalPlan) {
            if (isJudged(node)) {
                return node;
            }
            LogicalPlan plan = (LogicalPlan) ((LogicalPlan) node).mapChildren(this);
            return plan.mapExpressions(this);
        }
        Expression found = (Expression) ((Expression) node).mapChildren(this);
        if (found instanceof PlanExpression) {
            PlanExpression nested = (PlanExpression) found;
            Object plan = apply(nested.plan());
            return plan == nested.plan() ? found : nested.withNewPlan((LogicalPlan) plan);
        }
        if (isReplaced(found)) {
            Expression replacement = ((RuntimeReplaceable) found).replacement();
            Object guarded = apply(replacement);
            return guarded == replacement ? found : guarded;
        }
        return found instanceof Cast ? guarded((Cast) found) : found;
    }

    /** Tell whether Spark will put another expression in the place of one, as of `to_timestamp`. */
    private static boolean isReplaced(Object node) {
        return node instanceof RuntimeReplaceable && !(node instanceof AggregateFunction);
    }

    /** Mark the text that a cast would read by the clock, so that it is no time, nor a word for one. */
    private static Expression guarded(Cast cast) {
        Expression text = cast.child();
        if (!(text.dataType() instanceof StringType) || text instanceof Literal) {
            return cast;
        }
        boolean words = cast.dataType() instanceof DateType
                || cast.dataType() instanceof TimestampNTZType;
        if (!(cast.dataType() instanceof TimestampType) && !(words && text.foldable())) {
            return cast;
        }
        if (!text.dataType().equals(DataTypes.StringType)) {
            text = new Cast(text, DataTypes.StringType, cast.timeZoneId(), cast.evalMode());
        }
        return (Expression) cast.withNewChildren(seq(Collections.singletonList(marked(text))));
    }

    /**
     * Return a text with a mark in front if it is read by the clock.
     *
     * Of a column, texts from '1900' to '2099' are left alone at once, which costs little: they begin
     * with three digits, and an hour has two.
     */
    private static Expression marked(Expression text) {
        Expression searched = new RegExpReplace(
                text, text(UNDATED), text("no date: "), number(1));
        return text instanceof Attribute
                ? new If(new Or(hundred(text, "20"), hundred(text, "19")), text, searched)
                : searched;
    }

    private static Expression hundred(Expression text, String years) {
        return new And(
                new GreaterThanOrEqual(text, text(years + "00")),
                new LessThanOrEqual(text, text(years + "99~")));
    }

    private static Literal text(String value) {
        return new Literal(UTF8String.fromString(value), DataTypes.StringType);
    }

    private static Literal number(int value) {
        return new Literal(Integer.valueOf(value), DataTypes.IntegerType);
    }

    private static boolean isJudged(Object node) {
        return node instanceof View && ((View) node).isTempViewStoringAnalyzedPlan();
    }

    /** Return what there is in the plan: as it was analysed, else as it was parsed. */
    public String parts() throws Exception {
        classes = new HashSet();
        found = new TreeMap();
        walk(frame == null ? parsed : frame.queryExecution().analyzed());
        return text();
    }

    private void walk(Object plan) throws Exception {
        seen = Collections.newSetFromMap(new IdentityHashMap());
        pending = new ArrayDeque();
        pending.add(plan);
        while (!pending.isEmpty()) {
            visit(pending.poll());
        }
    }

    private String text() {
        StringBuilder text = new StringBuilder();
        for (Iterator each = found.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            text.append(entry.getKey()).append('\u0001').append(entry.getValue()).append('\u0002');
        }
        return text.toString();
    }

    private void visit(Object each) throws Exception {
        if (!seen.add(each)) {
            return;
        }
        if (each instanceof TreeNode) {
            if (collecting) {
                collect(each);
            } else {
                node((TreeNode) each);
            }
            if (isJudged(each)) {
                return;
            }
            addAll(((TreeNode) each).children().iterator());
            addAll(((TreeNode) each).innerChildren().iterator());
        } else if (each instanceof UserDefinedType) {
            add("class", each.getClass().getName(), "", null);
        }
        if (each instanceof scala.collection.Iterable) {
            addAll(((scala.collection.Iterable) each).iterator());
        } else if (each instanceof scala.Product) {
            addAll(((scala.Product) each).productIterator());
        }
    }

    private void node(TreeNode node) {
        if (classes.add(node.getClass())) {
            String spoken = node instanceof Expression ? ((Expression) node).prettyName() : "";
            add("class", node.getClass().getName(), spoken, node);
        }
        if (node instanceof UnresolvedFunction) {
            UnresolvedFunction function = (UnresolvedFunction) node;
            add("function", dotted(function.nameParts()), kinds(function.arguments()), node);
        } else if (node instanceof UnresolvedTableValuedFunction) {
            UnresolvedTableValuedFunction function = (UnresolvedTableValuedFunction) node;
            add("function", dotted(function.name()), kinds(function.functionArgs()), node);
        } else if (node instanceof UnresolvedGenerator) {
            UnresolvedGenerator function = (UnresolvedGenerator) node;
            add("function", function.name().unquotedString(), kinds(function.children()), node);
        } else if (node instanceof UnresolvedRelation) {
            UnresolvedRelation relation = (UnresolvedRelation) node;
            if (relation.multipartIdentifier().size() > 1) {
                add("relation", dotted(relation.multipartIdentifier()), "", node);
            }
            for (Iterator each = relation.options().keySet().iterator(); each.hasNext();) {
                add("option", each.next().toString(), "relation", node);
            }
        } else if (node instanceof StaticInvoke) {
            StaticInvoke call = (StaticInvoke) node;
            add("method", call.staticObject().getName(), call.functionName(), node);
        } else if (node instanceof Invoke) {
            Expression target = ((Invoke) node).targetObject();
            Object value = target instanceof Literal ? ((Literal) target).value() : null;
            String name = value == null ? "?" : value.getClass().getName();
            add("method", name, ((Invoke) node).functionName(), node);
        }
        if (frame != null && node instanceof Aggregate) {
            grouped((Aggregate) node);
        }
        if (node instanceof Expression) {
            options(node);
            clock((Expression) node);
            pivoted(node);
            if (frame != null && isReplaced(node)) {
                clocks(((RuntimeReplaceable) node).replacement());
            }
        }
    }

    /** Note keys of groups in which Spark 4.3 takes a null for a zero, as it sorts maps by key. */
    private void grouped(Aggregate node) {
        for (Iterator each = list(node.groupingExpressions()).iterator(); each.hasNext();) {
            Expression key = (Expression) each.next();
            if (losesNulls(key.dataType())) {
                add("map", key.dataType().sql(), "", key);
            }
        }
    }

    private static boolean losesNulls(DataType type) {
        if (type instanceof MapType) {
            MapType map = (MapType) type;
            boolean isPrimitive = CodeGenerator.isPrimitiveType(map.valueType());
            return (isPrimitive && map.valueContainsNull())
                    || losesNulls(map.keyType()) || losesNulls(map.valueType());
        }
        if (type instanceof ArrayType) {
            return losesNulls(((ArrayType) type).elementType());
        }
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int at = 0; at < fields.length; at++) {
                if (losesNulls(fields[at].dataType())) {
                    return true;
                }
            }
        }
        return false;
    }

    private void clocks(Expression node) {
        clock(node);
        if (node instanceof Cast && isConstant) {
            workedOut((Cast) node);
        }
        for (scala.collection.Iterator each = node.children().iterator(); each.hasNext();) {
            clocks((Expression) each.next());
        }
        if (isReplaced(node)) {
            clocks(((RuntimeReplaceable) node).replacement());
        }
    }

    /** Note what Spark reads by its clock: texts without a date, words for moments, TIMEs as times. */
    private void clock(Expression node) {
        if (node instanceof Literal && frame == null && !isConstant) {
            DataType type = node.dataType();
            if (isTime(type) || type instanceof DateType) {
                add("clock", typed((Literal) node), type.sql(), node);
            }
        } else if (node instanceof Cast && node.resolved()) {
            Expression child = ((Cast) node).child();
            String kind = clockKind(child.dataType(), node.dataType(), 0);
            if (kind != null) {
                add("clock", kind, node.dataType().sql(), node);
            } else if (child instanceof Literal
                    && child.dataType() instanceof StringType
                    && (isTime(node.dataType()) || node.dataType() instanceof DateType)) {
                add("clock", quotedIfUndated(((Literal) child).value()), node.dataType().sql(), node);
            }
        } else if (node instanceof VariantGet && holds(node.dataType(), false)) {
            add("clock", "VARIANT", node.dataType().sql(), node);
        } else if ((node instanceof JsonToStructs && !isFormatted(((JsonToStructs) node).options()))
                || (node instanceof CsvToStructs && !isFormatted(((CsvToStructs) node).options()))
                || (node instanceof XmlToStructs && !isFormatted(((XmlToStructs) node).options()))) {
            if (holds(node.dataType(), false)) {
                add("clock", "PARSED", node.prettyName(), node);
            }
        }
    }

    /**
     * Return what the constants of the parsed plan read by the clock.
     *
     * Spark works many of them out as it analyses: rows of VALUES, arguments of functions for tables,
     * fields of dates, formats, schemas. So each is analysed by itself first, those that are parts of
     * others before these; all of one height at once.
     */
    public String constants() throws Exception {
        found = new TreeMap();
        heights = new IdentityHashMap();
        levels = new TreeMap();
        tables = new ArrayList();
        pivots = new ArrayList();
        collecting = true;
        walk(parsed);
        collecting = false;
        isConstant = true;
        for (Iterator each = levels.values().iterator(); each.hasNext();) {
            constants(new ArrayList((Set) each.next()));
        }
        for (Iterator each = tables.iterator(); each.hasNext();) {
            constants(columns((UnresolvedInlineTable) each.next()));
        }
        for (Iterator each = pivots.iterator(); each.hasNext();) {
            Iterator values = list(((Pivot) each.next()).pivotValues()).iterator();
            while (values.hasNext() && pivot == null) {
                pivot = undated((Expression) values.next());
            }
        }
        isConstant = false;
        return text();
    }

    private void constants(List each) {
        for (int at = 0; at < each.size(); at += TOGETHER) {
            List some = each.subList(at, Math.min(at + TOGETHER, each.size()));
            if (!isAnalysed(some) && some.size() > 1) {
                for (Iterator one = some.iterator(); one.hasNext();) {
                    isAnalysed(Collections.singletonList(one.next()));
                }
            }
        }
    }

    /** Note what constants read by the clock; false if they mean nothing alone, such as `ntile(4)`. */
    private boolean isAnalysed(List constants) {
        ArrayList named = new ArrayList();
        for (Iterator each = constants.iterator(); each.hasNext();) {
            named.add(new UnresolvedAlias((Expression) each.next(), scala.Option.empty()));
        }
        LogicalPlan plan;
        try {
            plan = Dataset.ofRows(session, new Project(seq(named), new OneRowRelation()))
                    .queryExecution().analyzed();
        } catch (Throwable meaningless) {
            return false;
        }
        for (ArrayDeque plans = new ArrayDeque(Collections.singleton(plan)); !plans.isEmpty();) {
            LogicalPlan next = (LogicalPlan) plans.poll();
            for (Iterator each = list(next.expressions()).iterator(); each.hasNext();) {
                clocks((Expression) each.next());
            }
            plans.addAll(list(next.children()));
        }
        return true;
    }

    /** Return the columns of an inline table that may get one type, each as an array. */
    private List columns(UnresolvedInlineTable table) throws Exception {
        ArrayList columns = new ArrayList();
        List rows = list(table.rows());
        for (int at = 0; at < ((scala.collection.Seq) rows.get(0)).size(); at++) {
            ArrayList cells = new ArrayList();
            Set types = new HashSet();
            for (Iterator each = rows.iterator(); each.hasNext();) {
                scala.collection.Seq row = (scala.collection.Seq) each.next();
                Expression cell = at < row.size() ? (Expression) row.apply(at) : null;
                if (cell != null && height(cell) >= 0) {
                    cells.add(alone(cell));
                    types.add(cell instanceof Literal ? (Object) cell.dataType() : cell);
                }
            }
            if (types.size() > 1) {
                columns.add(call("array", cells));
            }
        }
        return columns;
    }

    /** Return what of a value is, or may be, a text without a date; null if nothing. */
    private static TreeNode undated(Expression value) {
        if (value instanceof Literal) {
            boolean isDated = !isSuspicious(value) || value.dataType() instanceof StringType
                    && quotedIfUndated(((Literal) value).value()).isEmpty();
            return isDated ? null : value;
        }
        if (!(value instanceof Alias) && !(value instanceof CreateNamedStruct)) {
            return value;
        }
        for (Iterator each = list(value.children()).iterator(); each.hasNext();) {
            TreeNode found = undated((Expression) each.next());
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** Note a PIVOT of times, whose values Spark read as it analysed, if one may be undated. */
    private void pivoted(TreeNode node) {
        if (pivot != null && frame != null) {
            DataType type = node instanceof PivotFirst
                    ? ((PivotFirst) node).pivotColumn().dataType()
                    : node instanceof EqualNullSafe && ((Expression) node).resolved()
                    ? ((EqualNullSafe) node).left().dataType()
                    : DataTypes.NullType;
            if (holds(type, true)) {
                add("clock", "PIVOT", type.sql(), pivot);
            }
        }
    }

    private static boolean isSuspicious(Expression leaf) {
        return leaf instanceof Literal
                && (leaf.dataType() instanceof StringType || leaf.dataType() instanceof TimeType);
    }

    /** Return how many calls a constant is deep; -1 if it is none. */
    private int height(Expression node) {
        Integer known = (Integer) heights.get(node);
        if (known != null) {
            return known.intValue();
        }
        int height = 0;
        if (node instanceof Attribute
                || node instanceof Star
                || node instanceof PlanExpression
                || node instanceof UnresolvedNamedLambdaVariable
                || node instanceof LambdaFunction) {
            height = -1;
        }
        boolean isTyped = isOfTypes(node);
        for (Iterator each = list(node.children()).iterator(); each.hasNext() && height >= 0;) {
            int below = height((Expression) each.next());
            height = below < 0 && !isTyped ? -1 : Math.max(height, below + 1);
        }
        heights.put(node, Integer.valueOf(height));
        return height;
    }

    /** Tell whether something is constant whatever it is of: `typeof(a)`. */
    private static boolean isOfTypes(Object node) {
        return node instanceof UnresolvedFunction
                && dotted(((UnresolvedFunction) node).nameParts())
                        .matches("(?i)(?:.*\\.)?typeof");
    }

    /** Return a constant without the columns that `typeof` has in it. */
    private Expression alone(Expression node) throws Exception {
        if (isOfTypes(node)) {
            return call("lower", Collections.singletonList(text("a")));
        }
        ArrayList children = new ArrayList();
        boolean same = true;
        for (Iterator each = list(node.children()).iterator(); each.hasNext();) {
            Expression child = (Expression) each.next();
            Expression other = alone(child);
            same = same && child == other;
            children.add(other);
        }
        return same ? node : (Expression) node.withNewChildren(seq(children));
    }

    private Expression call(String name, List arguments) throws Exception {
        String text = name + "(" + String.join(", ", Collections.nCopies(arguments.size(), "1")) + ")";
        Expression call = session.sessionState().sqlParser().parseExpression(text);
        return (Expression) call.withNewChildren(seq(arguments));
    }

    /** Note a constant that may be read by the clock, by how high it is. */
    private void collect(Object node) throws Exception {
        if (node instanceof UnresolvedInlineTable) {
            tables.add(node);
        } else if (node instanceof Pivot) {
            pivots.add(node);
        } else if (node instanceof Expression && height((Expression) node) > 0) {
            if (weight((Expression) node) > 1) {
                Integer height = Integer.valueOf(height((Expression) node));
                if (!levels.containsKey(height)) {
                    levels.put(height, new LinkedHashSet());
                }
                ((Set) levels.get(height)).add(alone((Expression) node));
            }
        }
    }

    /** Return how much there is that could become a time: texts, TIMEs, calls. */
    private static int weight(Expression node) {
        int weight = node instanceof Literal && !isSuspicious(node) ? 0 : 1;
        for (Iterator each = list(node.children()).iterator(); each.hasNext() && weight < 2;) {
            weight += weight((Expression) each.next());
        }
        return weight;
    }

    /** Note a cast of a text that was worked out from constants, if it is a time by the clock. */
    private void workedOut(Cast cast) {
        Expression guarded = guarded(cast);
        if (guarded == cast || !cast.child().foldable()) {
            return;
        }
        try {
            Object value = evaluable(cast.child()).eval(InternalRow$.MODULE$.empty());
            add("clock", quotedIfUndated(value), cast.dataType().sql(), cast);
        } catch (Throwable failed) {
            add("clock", "CONSTANT", cast.dataType().sql(), cast);
        }
    }

    /**
     * Work out the constants that every row needs, and return those that fail.
     *
     * A failure whose place Spark reports is thrown unchanged. Branches of conditions, try functions and
     * the bodies of lambda functions are not evaluated: no row may need them. A call of a column is
     * evaluated over a sample, if its constants alone decide that it fails, such as a path of XML.
     */
    public String failures() throws Throwable {
        found = new TreeMap();
        ArrayDeque plans = new ArrayDeque(Collections.singleton(frame.queryExecution().analyzed()));
        while (!plans.isEmpty()) {
            LogicalPlan plan = (LogicalPlan) plans.poll();
            if (!isJudged(plan)) {
                for (Iterator each = list(plan.expressions()).iterator(); each.hasNext();) {
                    evaluate((Expression) each.next(), plan, plans);
                }
                plans.addAll(list(plan.children()));
            }
        }
        return text();
    }

    /** Work out an expression, and if it fails note where it stands, or what it stands for. */
    private void evaluate(Expression node, TreeNode of, ArrayDeque plans) throws Throwable {
        TreeNode written = isPartOf(of, node) ? of : node;
        if (node instanceof LambdaFunction || node.getClass().getSimpleName().startsWith("Try")) {
            return;
        }
        if (node instanceof PlanExpression) {
            plans.add(((PlanExpression) node).plan());
        }
        if (isReplaced(node)) {
            evaluate(((RuntimeReplaceable) node).replacement(), written, plans);
        } else if (node.foldable() && !(node instanceof Literal) && !isConditional(node)) {
            try {
                evaluable(node).eval(InternalRow$.MODULE$.empty());
            } catch (Throwable failed) {
                boolean isNamed = isNamed(failed);
                if (isNamed && ((SparkThrowable) failed).getQueryContext().length > 0) {
                    throw failed;
                }
                if (isNamed || failed instanceof IllegalArgumentException) {
                    addFailure(failed, node, written);
                }
            }
        } else {
            for (Iterator each = needed(node).iterator(); each.hasNext();) {
                evaluate((Expression) each.next(), written, plans);
            }
        }
        if (BY_CONSTANTS.contains(called(node))) {
            evaluateSample(node, written);
        }
    }

    /** Tell whether an expression is nothing that a user wrote, but part of what stands for that. */
    private static boolean isPartOf(TreeNode written, Expression node) {
        if (place(node).startsWith("-1")) {
            return true;
        }
        if (!(written instanceof Expression) || place(written).startsWith("-1")) {
            return false;
        }
        boolean isSame = place(node).equals(place(written)) && !(written instanceof Alias);
        return isSame || !holds(written.origin(), node.origin());
    }

    private static boolean holds(Origin outer, Origin inner) {
        int start = ((Integer) inner.startIndex().get()).intValue();
        int stop = ((Integer) inner.stopIndex().get()).intValue();
        return ((Integer) outer.startIndex().get()).intValue() <= start
                && stop <= ((Integer) outer.stopIndex().get()).intValue();
    }

    private void addFailure(Throwable failed, Expression node, TreeNode written) {
        Expression named = written instanceof Expression ? (Expression) written : node;
        boolean isOfOld = failed instanceof SparkUpgradeException && failed.getCause() != null;
        Throwable reason = isOfOld ? failed.getCause() : failed;  // no way back to Spark 2 is offered
        add("failure", named.prettyName(), String.valueOf(reason.getMessage()), written);
    }

    /** Return the name of the class of an expression, or of the method that it calls. */
    private static String called(Expression node) {
        return node instanceof StaticInvoke
                ? ((StaticInvoke) node).functionName()
                : node.getClass().getSimpleName();
    }

    /** Work out a call over a sample in the place of its column, and note it if that fails. */
    private void evaluateSample(Expression node, TreeNode written) {
        boolean isRange = node instanceof Sequence;
        ArrayList arguments = new ArrayList();
        for (Iterator each = list(node.children()).iterator(); each.hasNext();) {
            Expression child = (Expression) each.next();
            boolean isValue = arguments.isEmpty() || isRange && arguments.size() == 1;
            Expression sample = isValue ? sample(node, child.dataType()) : null;
            if (isValue ? sample == null : !child.foldable() || isConditional(child)) {
                return;
            }
            arguments.add(isValue ? sample : evaluable(child));
        }
        try {
            Expression call = (Expression) node.withNewChildren(seq(arguments));
            evaluable(call).eval(InternalRow$.MODULE$.empty());
        } catch (Throwable failed) {
            if (isByConstants(node, failed)) {
                addFailure(failed, node, written);
            }
        }
    }

    /** Return a value over which a call fails only if it fails over all; null if none is known. */
    private static Expression sample(Expression node, DataType type) {
        if (type instanceof StringType) {
            return text(sampleText(node));
        }
        if (type instanceof DateType) {
            return new Literal(Integer.valueOf(0), type);
        }
        if (node instanceof Sequence) {
            return null;  // of numbers and times, some steps fit some ends
        }
        if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            return new Literal(Long.valueOf(0L), type);
        }
        if (type instanceof BinaryType) {
            return new Literal(new byte[0], type);
        }
        if (isNested(type)) {
            return plain(type);
        }
        return type instanceof NumericType
                ? new Cast(number(0), type, scala.Option.empty(), EvalMode$.MODULE$.ANSI())
                : null;
    }

    private static String sampleText(Expression node) {
        if (node instanceof XPathExtract || node instanceof XmlToStructs) {
            return "<a/>";
        }
        if (node instanceof JsonToStructs && node.dataType() instanceof StructType) {
            StringBuffer fields = new StringBuffer();
            String[] names = ((StructType) node.dataType()).fieldNames();
            for (int at = 0; at < names.length; at++) {
                String name = names[at].replace("\\", "\\\\").replace("\"", "\\\"");
                fields.append(at == 0 ? "" : ",").append("\"" + name + "\":\"1\"");
            }
            return "{" + fields + "}";
        }
        return node instanceof CsvToStructs ? "1" : "";
    }

    private static boolean isNested(DataType type) {
        return type instanceof StructType || type instanceof ArrayType || type instanceof MapType
                || type instanceof VariantType;
    }

    /** Return the value of a type that Spark itself takes for one; null if it has none. */
    private static Literal plain(DataType type) {
        if (type instanceof ArrayType) {
            Literal item = plain(((ArrayType) type).elementType());
            Object[] items = {item == null ? null : item.value()};
            return new Literal(new GenericArrayData(items), type);
        }
        try {  // by its name: `default` is a word of Java
            Method made = Literal.class.getMethod("default", new Class[] {DataType.class});
            return (Literal) made.invoke(null, new Object[] {type});
        } catch (ReflectiveOperationException unknown) {
            return null;
        }
    }

    /** Tell whether constants alone made a call fail: of a parser, its pattern of times. */
    private static boolean isByConstants(Expression node, Throwable failed) {
        if (node instanceof ToTimestamp || node.dataType() instanceof StructType) {
            return isNamed(failed)
                    && ((SparkThrowable) failed).getCondition().contains("DATETIME_PATTERN");
        }
        return isNamed(failed)
                || failed instanceof IllegalArgumentException
                || failed instanceof DateTimeException
                || node instanceof XPathExtract && failed.getClass() == RuntimeException.class;
    }

    /** Return the parts of an expression that are worked out for every row. */
    private static List needed(Expression node) {
        if (node instanceof ConditionalExpression) {
            return list(((ConditionalExpression) node).alwaysEvaluatedInputs());
        }
        return node instanceof And || node instanceof Or
                ? Collections.singletonList(node.children().head())
                : list(node.children());
    }

    /** Tell whether something has a part that no row may come to. */
    private static boolean isConditional(Expression node) {
        boolean found = node instanceof ConditionalExpression
                || node instanceof And
                || node instanceof Or
                || isReplaced(node) && isConditional(((RuntimeReplaceable) node).replacement());
        for (Iterator each = list(node.children()).iterator(); each.hasNext() && !found;) {
            found = isConditional((Expression) each.next());
        }
        return found;
    }

    private static boolean isNamed(Throwable failed) {
        String condition = failed instanceof SparkThrowable
                ? ((SparkThrowable) failed).getCondition()
                : null;
        return condition != null && !condition.startsWith("INTERNAL_ERROR");
    }

    private static Expression evaluable(Expression node) {
        if (isReplaced(node)) {
            return evaluable(((RuntimeReplaceable) node).replacement());
        }
        ArrayList children = new ArrayList();
        for (Iterator each = list(node.children()).iterator(); each.hasNext();) {
            children.add(evaluable((Expression) each.next()));
        }
        return children.isEmpty() ? node : (Expression) node.withNewChildren(seq(children));
    }

    private static scala.collection.immutable.Seq seq(List of) {
        scala.collection.immutable.List all = scala.collection.immutable.Nil$.MODULE$;
        for (int at = of.size() - 1; at >= 0; at--) {
            all = all.$colon$colon(of.get(at));
        }
        return all;
    }

    private static List list(scala.collection.Iterable of) {
        ArrayList all = new ArrayList();
        for (scala.collection.Iterator each = of.iterator(); each.hasNext();) {
            all.add(each.next());
        }
        return all;
    }

    /** Return the text of a typed literal if it is read by the clock; also where it has none. */
    private String typed(Literal literal) {
        if (place(literal).startsWith("-1") || !literal.origin().sqlText().isDefined()) {
            return "?";
        }
        int start = ((Integer) literal.origin().startIndex().get()).intValue();
        int stop = ((Integer) literal.origin().stopIndex().get()).intValue();
        String sql = (String) literal.origin().sqlText().get();
        int from = sql.offsetByCodePoints(0, start);  // places count characters, not halves of them
        String text = sql.substring(from, sql.offsetByCodePoints(from, stop + 1 - start));
        String value = TYPE.matcher(text).replaceFirst("");
        try {
            Object read = session.sessionState().sqlParser().parseExpression(value);
            return read instanceof Literal && ((Literal) read).dataType() instanceof StringType
                    ? quotedIfUndated(((Literal) read).value())
                    : "?";
        } catch (Exception unreadable) {
            return "?";
        }
    }

    private static String quotedIfUndated(Object text) {
        boolean found = text != null && READ_BY_CLOCK.matcher(text.toString()).find();
        return found ? "'" + text.toString().trim().replaceAll("\\s|\\p{Cntrl}", " ") + "'" : "";
    }

    /** Return what a cast takes the day for, if it does and cannot be guarded. */
    private static String clockKind(DataType from, DataType to, int depth) {
        if (from instanceof TimeType && isTime(to)) {
            return "TIME";
        }
        if (from instanceof VariantType && holds(to, false)) {
            return "VARIANT";
        }
        if (from instanceof StringType && to instanceof TimestampType) {
            return depth > 0 ? "NESTED" : null;
        }
        String found = null;
        if (from instanceof ArrayType && to instanceof ArrayType) {
            found = clockKind(((ArrayType) from).elementType(), ((ArrayType) to).elementType(), 1);
        } else if (from instanceof MapType && to instanceof MapType) {
            found = clockKind(((MapType) from).keyType(), ((MapType) to).keyType(), 1);
            if (found == null) {
                found = clockKind(((MapType) from).valueType(), ((MapType) to).valueType(), 1);
            }
        } else if (from instanceof StructType && to instanceof StructType) {
            StructField[] before = ((StructType) from).fields();
            StructField[] after = ((StructType) to).fields();
            for (int at = 0; at < Math.min(before.length, after.length) && found == null; at++) {
                found = clockKind(before[at].dataType(), after[at].dataType(), 1);
            }
        }
        return found;
    }

    private static boolean isTime(DataType type) {
        return type instanceof TimestampType || type instanceof TimestampNTZType;
    }

    /** Tell whether a type has TIMESTAMP in it; or also those that words such as 'now' are read as. */
    private static boolean holds(DataType type, boolean words) {
        if (type instanceof ArrayType) {
            return holds(((ArrayType) type).elementType(), words);
        }
        if (type instanceof MapType) {
            return holds(((MapType) type).keyType(), words)
                    || holds(((MapType) type).valueType(), words);
        }
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int at = 0; at < fields.length; at++) {
                if (holds(fields[at].dataType(), words)) {
                    return true;
                }
            }
        }
        return type instanceof TimestampType || words && (isTime(type) || type instanceof DateType);
    }

    /** Tell whether times are read by a format of their own, and by nothing else. */
    private static boolean isFormatted(scala.collection.Map options) {
        boolean found = false;
        for (scala.collection.Iterator keys = options.keysIterator(); keys.hasNext();) {
            String key = (String) keys.next();
            found = found || key.equalsIgnoreCase("timestampFormat");
            if (key.equalsIgnoreCase("enableDateTimeParsingFallback")) {
                return false;
            }
        }
        return found;
    }

    /** Note the names of options: maps from text to text among what an expression is made of. */
    private void options(TreeNode node) {
        for (scala.collection.Iterator each = node.productIterator(); each.hasNext();) {
            Object value = each.next();
            if (value instanceof scala.collection.Map) {
                scala.collection.Iterator keys = ((scala.collection.Map) value).keysIterator();
                while (keys.hasNext()) {
                    Object key = keys.next();
                    if (key instanceof String) {
                        add("option", (String) key, node.nodeName(), node);
                    }
                }
            }
        }
    }

    /** Return what the arguments are: text, text with a brace, a function by its name, or other. */
    private static String kinds(scala.collection.Seq arguments) {
        StringBuilder text = new StringBuilder();
        for (scala.collection.Iterator all = arguments.iterator(); all.hasNext();) {
            Object each = all.next();
            if (each instanceof Literal) {
                boolean brace = String.valueOf(((Literal) each).value()).indexOf('{') >= 0;
                text.append(brace ? "brace" : "literal");
            } else if (each instanceof UnresolvedFunction) {
                text.append(dotted(((UnresolvedFunction) each).nameParts())).append("()");
            } else {
                text.append("other");
            }
            text.append(' ');
        }
        return text.toString();
    }

    private static String dotted(scala.collection.Seq parts) {
        return parts.mkString(".");
    }

    private void add(String kind, String name, String detail, TreeNode node) {
        if (name.isEmpty()) {
            return;
        }
        String key = kind + '\u0001' + name + '\u0001' + detail;
        if (!found.containsKey(key)) {
            found.put(key, node == null ? "-1\u0001-1" : place(node));
        }
    }

    private static String place(TreeNode node) {
        scala.Option start = node.origin().startIndex();
        scala.Option stop = node.origin().stopIndex();
        if (!start.isDefined() || !stop.isDefined()) {
            return "-1\u0001-1";
        }
        return start.get() + "\u0001" + stop.get();
    }

    private void addAll(scala.collection.Iterator members) {
        while (members.hasNext()) {
            Object each = members.next();
            if (each instanceof TreeNode
                    || each instanceof scala.Product
                    || each instanceof scala.collection.Iterable
                    || each instanceof UserDefinedType) {
                pending.add(each);
            }
        }
    }
}
