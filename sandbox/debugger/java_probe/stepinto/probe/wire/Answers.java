package stepinto.probe.wire;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The fields of answers. */
public final class Answers {
    private Answers() {}

    /** The request was not carried out. */
    public static Map<String, Object> error(String kind, String message) {
        Map<String, Object> error = new LinkedHashMap<>();
        error.put("kind", kind);
        error.put("message", message);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("error", error);
        return answer;
    }

    /** The probe itself failed. */
    public static Map<String, Object> failure(Throwable problem) {
        StringWriter trace = new StringWriter();
        problem.printStackTrace(new PrintWriter(trace));
        return error("internal", trace.toString());
    }

    /** Put notes before those that an answer has. */
    public static void addNotes(Map<String, Object> answer, List<String> notes) {
        List<Object> all = new ArrayList<Object>(notes);
        Object own = answer.get("notes");
        if (own instanceof List) {
            all.addAll((List<?>) own);
        }
        answer.put("notes", all);
    }
}
