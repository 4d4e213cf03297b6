package odfbuild;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.UserDefinedType;

/**
 * What a logical plan consists of, nested plans, types and options included; `admission.py` judges.
 *
 * A line for each kind, name and place, of which the first is kept: what a name is of, the name, its
 * detail, and where in the SQL text it starts and ends, or -1. What stands behind a temporary view
 * was judged when that was made.
 */
public final class PlanCensus {
    private final SparkSession session;
    private final LogicalPlan parsed;
    private Dataset frame;
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

    /** Return what there is in the plan: as it was analysed, else as it was parsed. */
    public String parts() {
        seen = Collections.newSetFromMap(new IdentityHashMap());
        classes = new HashSet();
        pending = new ArrayDeque();
        found = new TreeMap();
        pending.add(frame == null ? parsed : frame.queryExecution().analyzed());
        while (!pending.isEmpty()) {
            visit(pending.poll());
        }
        StringBuilder text = new StringBuilder();
        for (Iterator each = found.entrySet().iterator(); each.hasNext();) {
            Map.Entry entry = (Map.Entry) each.next();
            text.append(entry.getKey()).append('\u0001').append(entry.getValue()).append('\u0002');
        }
        return text.toString();
    }

    private void visit(Object each) {
        if (!seen.add(each)) {
            return;
        }
        if (each instanceof TreeNode) {
            node((TreeNode) each);
            if (each instanceof View && ((View) each).isTempViewStoringAnalyzedPlan()) {
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
        if (node instanceof Expression) {
            options(node);
        }
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
