package io.rowpipe.steps;

import java.io.Reader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

import io.rowpipe.records.CsvReader;
import io.rowpipe.records.Row;

/** Steps in a row, as one writes them: {@code fill column=kwh | delta column=kwh}. */
public final class Pipeline {

    private static final Map<String, Function<Options, Step>> STEPS = new HashMap<>();

    static {
        STEPS.put("keep", Keep::new);
        STEPS.put("fill", Fill::new);
        STEPS.put("delta", Delta::new);
        STEPS.put("sort", Sort::new);
        STEPS.put("total", Total::new);
    }

    private final List<Options> steps = new ArrayList<>();

    /** Raises IllegalArgumentException where a step is not known. */
    public static Pipeline parse(String text) {
        Pipeline pipeline = new Pipeline();
        for (String part : text.split("\\|")) {
            Options options = Options.parse(part);
            if (!STEPS.containsKey(options.step())) {
                throw new IllegalArgumentException("no step " + options.step());
            }
            pipeline.steps.add(options);
        }
        return pipeline;
    }

    /** The table that comes out, as CSV without its header. */
    public String run(Reader table) {
        Iterator<Row> rows = new CsvReader(table);
        for (Options options : steps) {
            rows = STEPS.get(options.step()).apply(options).apply(rows);
        }
        StringBuilder text = new StringBuilder();
        while (rows.hasNext()) {
            text.append(rows.next()).append('\n');
        }
        return text.toString();
    }
}
