package odfbuild;

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Optional;
import org.apache.spark.connect.proto.Relation;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.sparkproject.connect.protobuf.Any;

/**
 * What odfbuild asks a server of Spark Connect that has no public form there; `remote.py` asks it.
 *
 * A question is a relation of this plugin: a word, a line break, and what it is about. The answer
 * is a row of texts, or the plan of an admitted query.
 *
 *     version            hash of the classes of this plugin, version of Spark, properties of Java
 *     executors          ids of the executors, the driver not among them, and their hosts
 *     parsed TEXT        what the query consists of before Spark analyses it, and its constants
 *     analysed TEXT      what its plan consists of
 *     failures TEXT      the same, and its constants that fail
 *     query TEXT         its plan, with casts of texts to times guarded
 *     plan RELATION      the plan of any relation as text, and whether it is deterministic
 */
public final class AdmissionPlugin implements RelationPlugin {
    private static final String TYPE = "odfbuild/";
    private static final String[] CLASSES = {"AdmissionPlugin.class", "PlanCensus.class"};
    private static final String[] PROPERTIES = {
        "java.specification.version", "user.timezone", "file.encoding",
        "javax.xml.accessExternalDTD", "javax.xml.accessExternalSchema",
        "javax.xml.accessExternalStylesheet",
    };

    public Optional transform(byte[] relation, SparkConnectPlanner planner) {
        try {
            Any asked = Any.parseFrom(relation);
            if (!asked.getTypeUrl().startsWith(TYPE)) {
                return Optional.empty();
            }
            return Optional.of(answer(
                    asked.getTypeUrl().substring(TYPE.length()),
                    asked.getValue().toByteArray(),
                    planner));
        } catch (Throwable error) {  // as it is: the server tells clients what Spark says of it
            Platform.throwException(error);
            return Optional.empty();
        }
    }

    private static LogicalPlan answer(String word, byte[] about, SparkConnectPlanner planner)
            throws Throwable {
        SparkSession session = planner.session();
        if (word.equals("version")) {
            return row(version(session));
        }
        if (word.equals("executors")) {
            return row(executors(session));
        }
        if (word.equals("plan")) {
            LogicalPlan asked = planner.transformRelation(Relation.parseFrom(about));
            LogicalPlan plan = Dataset.ofRows(session, asked).queryExecution().analyzed();
            return row(new String[] {plan.toString(), String.valueOf(plan.deterministic())});
        }
        String text = new String(about, StandardCharsets.UTF_8);
        PlanCensus census = new PlanCensus().parse(session, text);
        if (word.equals("parsed")) {
            return row(new String[] {census.parts(), census.constants()});
        }
        census.analyse();
        if (word.equals("query")) {
            return census.guarded().queryExecution().analyzed();
        }
        if (word.equals("analysed")) {
            return row(new String[] {census.parts()});
        }
        if (word.equals("failures")) {
            return row(new String[] {census.parts(), census.failures()});
        }
        throw new IllegalArgumentException("odfbuild asks for " + word);
    }

    private static String[] version(SparkSession session) throws Exception {
        String[] found = new String[2 + PROPERTIES.length];
        found[0] = fingerprint();
        found[1] = session.version();
        for (int at = 0; at < PROPERTIES.length; at++) {
            found[2 + at] = System.getProperty(PROPERTIES[at]);
        }
        return found;
    }

    /** Return the hash of the classes as they are here, which are loaded from one archive. */
    private static String fingerprint() throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        for (int at = 0; at < CLASSES.length; at++) {
            InputStream file = AdmissionPlugin.class.getResourceAsStream(CLASSES[at]);
            ByteArrayOutputStream held = new ByteArrayOutputStream();
            byte[] some = new byte[8192];
            for (int read = file.read(some); read >= 0; read = file.read(some)) {
                held.write(some, 0, read);
            }
            file.close();
            hash.update(held.toByteArray());
        }
        return String.format("%064x", new Object[] {new BigInteger(1, hash.digest())});
    }

    private static String[] executors(SparkSession session) {
        String ids = session.sparkContext().getExecutorIds().mkString(",");
        return new String[] {ids, session.sparkContext().master()};
    }

    private static LogicalPlan row(String[] texts) {
        StructType columns = new StructType();
        Object[] values = new Object[texts.length];
        for (int at = 0; at < texts.length; at++) {
            columns = columns.add("c" + at, DataTypes.StringType, true);
            values[at] = texts[at] == null ? null : UTF8String.fromString(texts[at]);
        }
        LocalRelation none = LocalRelation$.MODULE$.apply(columns);
        scala.collection.immutable.List rows = scala.collection.immutable.Nil$.MODULE$;
        return new LocalRelation(
                none.output(),
                rows.$colon$colon(new GenericInternalRow(values)),
                false,
                scala.Option.empty());
    }
}
