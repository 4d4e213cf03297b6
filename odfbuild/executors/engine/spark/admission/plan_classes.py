"""The classes of Spark's plans, by whether a query may consist of them: one list of all.

A query is admitted if all its nodes and expressions are of classes that are named here.  What reads
files, catalogs or the session, runs code that is no part of Spark, changes something, or belongs to
streams is refused, as is all that Spark may gain: a test compares the list with its jars.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _names(packages: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        f"org.apache.spark.{package}.{name}"
        for package, names in packages.items()
        for name in names.split()
    )


_ADMITTED: Final = MappingProxyType(
    {
        "sql.catalyst.analysis": """
        LazyExpression MultiAlias ResolvedInlineTable ResolvedStar TempResolvedColumn
        UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
        UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable UnresolvedOrdinal
        UnresolvedPipeAggregateOrdinal UnresolvedQualify UnresolvedRegex UnresolvedRelation
        UnresolvedSeed$ UnresolvedStar UnresolvedStarExceptOrReplace
        UnresolvedStarWithColumns UnresolvedStarWithColumnsRenames
        UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
        UnresolvedWithinGroup$
        """,
        "sql.catalyst.expressions": """
        Abs Acos Acosh Add AddMonths AesDecrypt AesEncrypt Alias And ApproxTopKEstimate
        ArrayAggregate ArrayAppend ArrayBinarySearch ArrayCompact ArrayContains
        ArrayDistinct ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert
        ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition ArrayPrepend ArrayRemove
        ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion ArraysOverlap ArraysZip
        Ascii Asin Asinh AssertTrue AtLeastNNonNulls Atan Atan2 Atanh AttributeReference
        BRound Base32 Base64 Between Bin BinaryPad BinaryPredicate BitLength BitmapAndAgg
        BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount BitmapOrAgg
        BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor
        BloomFilterMightContain BoundReference Bucket CaseWhen Cast CastTimestampNTZToLong
        Cbrt Ceil CheckOverflow CheckOverflowInSum CheckOverflowInTableInsert Chr Coalesce
        Collate Collation CollationAwareMurmur3Hash CollationAwareXxHash64 CollationKey
        CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv
        ConvertTimezone Cos Cosh Cot CounterDiff CounterDiffWithStartTime Crc32 CreateArray
        CreateMap CreateNamedStruct Csc CsvToStructs Cube CumeDist CurrentDate CurrentRow$
        CurrentTime CurrentTimeZone CurrentTimestamp CurrentTimestampNanos DateAdd DateAddInterval
        DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DateSub DatetimeSub
        DayName DayOfMonth DayOfWeek DayOfYear Days DecimalAddNoOverflowCheck
        DecimalDivideWithOverflowCheck DecimalSubtractNoOverflowCheck Decode DenseRank
        Divide DivideDTInterval DivideInterval DivideYMInterval DropField EWM ElementAt Elt
        Empty2Null Encode EndsWith EqualNull EqualNullSafe EqualTo EulerNumber Exists Exp
        Explode Expm1 Extract ExtractANSIIntervalDays ExtractANSIIntervalHours
        ExtractANSIIntervalMinutes ExtractANSIIntervalMonths ExtractANSIIntervalSeconds
        ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours
        ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds
        ExtractIntervalYears Factorial FindInSet Flatten Floor FormatNumber FormatString
        FromUTCTimestamp FromUnixTime GeneratorOuter Get GetArrayItem GetArrayStructFields
        GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan GreaterThanOrEqual
        Greatest Grouping GroupingID GroupingSets Hex HiveHash HllSketchEstimate HllUnion
        Hmac Hour Hours HoursOfTime Hypot ILike If In InSet InSubquery InitCap Inline
        IntegralDivide IsNaN IsNotNull IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1
        IsValidUTF8 JaroWinkler JsonObjectKeys JsonTable JsonToStructs JsonTuple
        KllSketchGetNBigint KllSketchGetNDouble KllSketchGetNFloat
        KllSketchGetQuantileBigint KllSketchGetQuantileDouble KllSketchGetQuantileFloat
        KllSketchGetRankBigint KllSketchGetRankDouble KllSketchGetRankFloat
        KllSketchMergeBigint KllSketchMergeDouble KllSketchMergeFloat
        KllSketchToStringBigint KllSketchToStringDouble KllSketchToStringFloat
        KnownFloatingPointNormalized KnownNotContainsNull KnownNotNull KnownNullable Lag
        LambdaFunction LastDay LateralColumnAliasReference LateralSubquery Lead Least Left
        Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny
        ListQuery Literal LocalTimestamp LocalTimestampNanos Log Log10 Log1p Log2 Logarithm
        Lower Luhncheck MakeDTInterval MakeDate MakeDecimal MakeInterval MakeTime
        MakeTimestamp MakeTimestampFromDateTime MakeTimestampLTZ MakeTimestampLTZNanos
        MakeTimestampNTZ MakeTimestampNTZNanos MakeValidUTF8 MakeYMInterval MapConcat
        MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapSort
        MapValues MapZipWith Mask Md5 MicrosToTimestamp MillisToTimestamp Minute
        MinutesOfTime MonotonicallyIncreasingID Month MonthName Months MonthsBetween
        MultiCommutativeOp MultiGetJsonObject Multiply MultiplyDTInterval MultiplyInterval
        MultiplyYMInterval Murmur3Hash NTile NaNvl NamePlaceholder$ NamedArgumentExpression
        NamedLambdaVariable NanosToTimestamp NextDay Not NotLikeAll NotLikeAny Now NthValue
        NullIf NullIfResult NullIfZero NullIndex Nvl Nvl2 OctetLength Or OuterReference
        OuterScopeReference Overlay ParseToDate ParseToTimestamp ParseUrl PercentRank Pi
        PipeExpression PipeOperator Pmod PosExplode Pow PreciseTimestampConversion
        PrettyAttribute Quarter Quote RLike RaiseError Rand RandStr Randn Rank RegExpCount
        RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr Remainder
        ReplicateRows ResolvedCollation Reverse Right Rint Rollup Round RoundCeil RoundFloor
        RowNumber ScalarSubquery SchemaOfCsv SchemaOfJson SchemaOfXml Sec Second
        SecondWithFraction SecondWithFractionNanos SecondsOfTime SecondsOfTimeWithFraction
        SecondsToTimestamp SemiStructuredExtract Sentences Sequence SessionWindow Sha1 Sha2
        ShiftLeft ShiftRight ShiftRightUnsigned Shuffle Signum Sin Sinh Size Slice SortArray
        SortOrder SortPrefix SoundEx SpecifiedWindowFrame SplitPart Sqrt Stack StartsWith
        StringDecode StringInstr StringInstrWithOccurrence StringLPad StringLocate
        StringRPad StringRepeat StringReplace StringSpace StringSplit StringSplitSQL
        StringToMap StringTranslate StringTrim StringTrimBoth StringTrimLeft StringTrimRight
        StructsToCsv StructsToJson StructsToXml Substring SubstringIndex Subtract
        SubtractDates SubtractTimes SubtractTimestamps Tan Tanh ThetaDifference
        ThetaIntersection ThetaSketchEstimate ThetaUnion TimeAddInterval TimeBucket TimeDiff
        TimeFromMicros TimeFromMillis TimeFromSeconds TimeToMicros TimeToMillis
        TimeToSeconds TimeTrunc TimeWindow TimestampAdd TimestampAddInterval
        TimestampAddYMInterval TimestampDiff ToBinary ToCharacter ToDegrees ToJavaArray
        ToNumber ToPrettyString ToRadians ToTime ToUTCTimestamp ToUnixTimestamp
        TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryAesDecrypt
        TryDivide TryElementAt TryEval TryMakeInterval TryMakeTimestamp
        TryMakeTimestampFromDateTime TryMod TryMultiply TryParseUrl TrySubtract TryToBinary
        TryToNumber TryUrlDecode TryValidateUTF8 TupleDifferenceDouble
        TupleDifferenceInteger TupleDifferenceThetaDouble TupleDifferenceThetaInteger
        TupleIntersectionDouble TupleIntersectionInteger TupleIntersectionThetaDouble
        TupleIntersectionThetaInteger TupleSketchEstimateDouble TupleSketchEstimateInteger
        TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble
        TupleSketchThetaInteger TupleUnionDouble TupleUnionInteger TupleUnionThetaDouble
        TupleUnionThetaInteger TypeOf UnBase32 UnBase64 UnaryMinus UnaryPositive
        UnboundedFollowing$ UnboundedPreceding$ Unhex Uniform UnixDate UnixMicros UnixMillis
        UnixNanos UnixSeconds UnixTimestamp Unnest UnresolvedCollation
        UnresolvedNamedLambdaVariable UnresolvedWindowExpression UnscaledValue
        UnspecifiedFrame$ UpCast UpdateFields Upper UrlDecode UrlEncode Uuid ValidateUTF8
        VectorAvg VectorCosineSimilarity VectorInnerProduct VectorL2Distance VectorNorm
        VectorNormalize VectorSum WeekDay WeekOfYear WidthBucket WindowExpression
        WindowSpecDefinition WindowTime With WithField XmlToStructs XxHash64 Year YearOfWeek
        Years ZeroIfNull ZipWith
        """,
        "sql.catalyst.expressions.aggregate": """
        AggregateExpression AnyValue ApproxCountDistinctForIntervals ApproxTopK
        ApproxTopKAccumulate ApproxTopKCombine ApproximatePercentile Average BitAndAgg
        BitOrAgg BitXorAgg BloomFilterAggregate BoolAnd BoolOr CollectList CollectSet
        CollectTopK CollectUnion Corr Count CountIf CountMinSketchAgg CovPopulation
        CovSample First HistogramNumeric HllSketchAgg HllUnionAgg HyperLogLogPlusPlus
        KllMergeAggBigint KllMergeAggDouble KllMergeAggFloat KllSketchAggBigint
        KllSketchAggDouble KllSketchAggFloat Kurtosis Last ListAgg Max MaxBy MaxMinByK
        Measure Median Min MinBy Mode NoOp$ PandasCovar PandasKurtosis PandasMode
        PandasProduct PandasSkewness PandasStddev PandasVariance Percentile PercentileCont
        PercentileDisc PivotFirst Product RegrAvgX RegrAvgY RegrCount RegrIntercept RegrR2
        RegrReplacement RegrSXX RegrSXY RegrSYY RegrSlope Skewness StddevPop StddevSamp Sum
        ThetaIntersectionAgg ThetaSketchAgg ThetaUnionAgg TupleIntersectionAggDouble
        TupleIntersectionAggInteger TupleSketchAggDouble TupleSketchAggInteger
        TupleUnionAggDouble TupleUnionAggInteger VariancePop VarianceSamp
        """,
        "sql.catalyst.expressions.objects": """
        Invoke StaticInvoke
        """,
        "sql.catalyst.expressions.st": """
        ST_AsBinary ST_GeogFromWKB ST_GeomFromWKB ST_SetSrid ST_Srid
        """,
        "sql.catalyst.expressions.variant": """
        IsValidVariant IsVariantNull ParseJson SchemaOfVariant SchemaOfVariantAgg
        ToVariantObject UnwrapVariantCastError VariantArrayAppend VariantDelete
        VariantExplode VariantGet VariantInsert VariantSet VariantStripNulls
        """,
        "sql.catalyst.expressions.xml": """
        XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong XPathShort
        XPathString
        """,
        "sql.catalyst.plans.logical": """
        Aggregate AsOfJoin BinBy CTERelationDef CTERelationRef Deduplicate Distinct
        EmptyRelation Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin
        LimitAll LocalLimit LocalRelation NearestByJoin Offset OneRowRelation Pivot Project
        Range RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sample
        Sort Subquery SubqueryAlias Union UnionLoop UnionLoopRef Unpivot UnresolvedBinBy
        UnresolvedHint UnresolvedWith View Window WindowGroupLimit WithCTE
        WithWindowDefinition
        """,
    }
)

_REFUSED: Final = MappingProxyType(
    {
        "ml.stat": """
        SummaryBuilderImpl$MetricsAggregate
        """,
        "sql.catalyst.analysis": """
        CdcAssertCommitTimestampNotNull CurrentNamespace$ ExpressionWithUnresolvedIdentifier
        GeneralParameterizedQuery GetColumnByOrdinal GetViewColumnByNameAndOrdinal
        NameParameterizedQuery NamedParameter NamedStreamingRelation
        PlanWithUnresolvedIdentifier PosParameter PosParameterizedQuery RelationChanges
        RelationTimeTravel ResolvedFieldName ResolvedFieldPosition ResolvedIdentifier
        ResolvedNamespace ResolvedNonPersistentFunc ResolvedPartitionSpec
        ResolvedPersistentFunc ResolvedPersistentView ResolvedProcedure ResolvedTable
        ResolvedTempView SQLFunctionExpression SQLFunctionNode SQLScalarFunction
        SQLTableFunction UnresolvedDataFrameStar UnresolvedDeduplicate
        UnresolvedDeserializer UnresolvedEventTimeWatermark UnresolvedExecuteImmediate
        UnresolvedFieldName UnresolvedFieldPosition UnresolvedFunctionName
        UnresolvedIdentifier UnresolvedInsertTarget UnresolvedNamespace
        UnresolvedPartitionSpec UnresolvedProcedure UnresolvedTable UnresolvedTableOrView
        UnresolvedTranspose UnresolvedView V2ChangelogReference V2TableReference
        """,
        "sql.catalyst.analysis.resolver": """
        UnresolvedCteRelationRef
        """,
        "sql.catalyst.catalog": """
        HiveTableRelation TemporaryViewRelation UnresolvedCatalogRelation
        """,
        "sql.catalyst.encoders": """
        DummyExpressionHolder
        """,
        "sql.catalyst.expressions": """
        ApplyFunctionExpression CallMethodViaReflection CheckConstraint CheckInvariant
        Collations CurrentBatchTimestamp CurrentCatalog CurrentDatabase CurrentPath
        CurrentUser CursorReference DirectShufflePartitionID
        DistributedSequenceID DynamicPruningExpression DynamicPruningSubquery
        ExpressionProxy ExternalUserDefinedFunction ForeignKeyConstraint FromAvro
        FromProtobuf FunctionTableSubqueryArgumentExpression InputFileBlockLength
        InputFileBlockStart InputFileName PrettyPythonUDF
        PrimaryKeyConstraint PrintToStderr PythonUDAF PythonUDF PythonUDTF SQLKeywords
        ScalaUDF SchemaOfAvro SparkPartitionID SparkVersion ToAvro ToProtobuf
        TransformExpression TranspiledPythonUDF TranspiledUDFParameter TryReflect
        UniqueConstraint UnresolvedCursor UnresolvedExistsPlanId UnresolvedInSubqueryPlanId
        UnresolvedPolymorphicPythonUDTF UnresolvedScalarSubqueryPlanId
        UnresolvedTableArgPlanId UnwrapUDT UserDefinedGenerator VariableReference
        """,
        "sql.catalyst.expressions.aggregate": """
        V2Aggregator
        """,
        "sql.catalyst.expressions.objects": """
        AssertNotNull CatalystToExternalMap CreateExternalRow DecodeUsingSerializer
        EncodeUsingSerializer ExternalMapToCatalyst GetExternalRowField InitializeJavaBean
        LambdaVariable MapObjects NewInstance UnresolvedCatalystToExternalMap
        UnresolvedMapObjects UnwrapOption ValidateExternalType WrapOption
        """,
        "sql.catalyst.optimizer": """
        NonGroupingAggregateReference NormalizeNaNAndZero OrderedJoin
        ScalarSubqueryReference
        """,
        "sql.catalyst.plans.logical": """
        AddCheckConstraint AddColumns AddConstraint AddPartitions AlterColumnSpec
        AlterColumns AlterTableClusterBy AlterTableCollation AlterViewAs
        AlterViewSchemaBinding AnalyzeColumn AnalyzeTable AnalyzeTables AppendColumns
        AppendColumnsWithObject AppendData ArrowEvalPython ArrowEvalPythonUDTF Assignment
        AttachDistributedSequence AutoCdcInto BatchEvalPython BatchEvalPythonUDTF CacheTable
        CacheTableAsSelect Call CloseCursor CoGroup CollectMetrics ColumnDefinition
        CommandResult CommentOnNamespace CommentOnTable CompoundBody CreateFlowCommand
        CreateFunction CreateIndex CreateMaterializedViewAsSelect CreateNamespace
        CreateStreamingTable CreateStreamingTableAsSelect CreateStreamingTableAutoCdc
        CreateTable CreateTableAsSelect CreateTableLike CreateUserDefinedFunction
        CreateVariable CreateView DataFrameDropColumns DeclareCursor
        DeduplicateWithinWatermark DefaultValueExpression DeleteAction DeleteFromTable
        DeleteFromTableWithFilters DescribeColumn DescribeFunction DescribeNamespace
        DescribeRelation DescribeTablePartition DeserializeToObject DomainJoin DropColumns
        DropConstraint DropFunction DropIndex DropNamespace DropPartitions DropTable
        DropVariable DropView ErrorCondition EventTimeWatermark ExceptionHandler FetchCursor
        FlatMapCoGroupsInArrow FlatMapCoGroupsInPandas FlatMapGroupsInArrow
        FlatMapGroupsInPandas FlatMapGroupsInPandasWithState FlatMapGroupsInR
        FlatMapGroupsInRWithArrow FlatMapGroupsWithState ForStatement
        GeneratedColumnExpression IfElseStatement InsertAction InsertIntoDir
        InsertIntoStatement InsertOnlyMerge InsertReplaceOn InsertReplaceUsing
        InsertReplaceWhere InsertStarAction IterateStatement LeaveStatement LoadData
        LoopStatement MapElements MapGroups MapInArrow MapInPandas MapPartitions
        MapPartitionsExternalUDF MapPartitionsInR MapPartitionsInRWithArrow MergeIntoTable
        MergeRows MergeRows$Discard MergeRows$Keep MergeRows$Split MultiResult NoopCommand
        OpenCursor OptionList OverwriteByExpression OverwritePartitionsDynamic
        PythonWorkerLogs QualifiedColType RecoverPartitions RefreshFunction RefreshTable
        RenameColumn RenamePartitions RenameTable RepairTable RepeatStatement ReplaceColumns
        ReplaceData ReplaceTable ReplaceTableAsSelect ReturnAnswer SQLFunctionNode
        ScriptTransformation SearchedCaseStatement SequentialStreamingUnion
        SerializeFromObject SetCatalogAndNamespace SetNamespaceLocation
        SetNamespaceProperties SetTableLocation SetTableProperties SetTableSerDeProperties
        SetVariable SetViewProperties ShowColumns ShowCreateTable ShowFunctions
        ShowPartitions ShowTablePartition ShowTableProperties ShowTables ShowTablesExtended
        ShowViews SimpleCaseStatement SingleStatement Tail TransformWithState
        TransformWithStateInPySpark Transpose TruncatePartition TruncateTable TypedFilter
        UncacheTable UnresolvedDataSource UnresolvedInsert UnresolvedTableSpec
        UnsetTableProperties UnsetViewProperties UpdateAction UpdateEventTimeWatermarkColumn
        UpdateStarAction UpdateTable WhileStatement WriteDelta Zip
        """,
        "sql.catalyst.plans.physical": """
        CoalescedHashPartitioning CoalescedNullAwareHashPartitioning HashPartitioning
        KeyedPartitioning NullAwareHashPartitioning PartitioningCollection RangePartitioning
        ShufflePartitionIdPassThrough
        """,
        "sql.catalyst.streaming": """
        StreamingRelationV2 WriteToStream WriteToStreamStatement
        """,
        "sql.classic": """
        ColumnNodeExpression
        """,
        "sql.execution": """
        ExternalRDD InSubqueryExec LogicalRDD ScalarSubquery
        """,
        "sql.execution.adaptive": """
        LogicalQueryStage
        """,
        "sql.execution.aggregate": """
        ComplexTypedAggregateExpression ScalaAggregator ScalaUDAF
        SimpleTypedAggregateExpression
        """,
        "sql.execution.columnar": """
        InMemoryRelation
        """,
        "sql.execution.command": """
        AddArchivesCommand AddFilesCommand AddJarsCommand AlterDatabasePropertiesCommand
        AlterDatabaseSetLocationCommand AlterTableAddColumnsCommand
        AlterTableAddPartitionCommand AlterTableChangeColumnCommand
        AlterTableChangeColumnCommentsCommand AlterTableDropPartitionCommand
        AlterTableRenameCommand AlterTableRenamePartitionCommand
        AlterTableSerDePropertiesCommand AlterTableSetLocationCommand
        AlterTableSetPropertiesCommand AlterTableUnsetPropertiesCommand AlterViewAsCommand
        AlterViewSchemaBindingCommand AnalyzeColumnCommand AnalyzePartitionCommand
        AnalyzeTableCommand AnalyzeTablesCommand ClearCacheCommand$
        CreateDataSourceTableAsSelectCommand CreateDataSourceTableCommand
        CreateDatabaseCommand CreateFunctionCommand CreateMetricViewCommand
        CreateSQLFunctionCommand CreateTableCommand CreateTableLikeCommand CreateViewCommand
        DescribeColumnCommand DescribeDatabaseCommand DescribeFunctionCommand
        DescribeProcedureCommand DescribeQueryCommand DescribeRelationJsonCommand
        DescribeTableCommand DropDatabaseCommand DropFunctionCommand DropTableCommand
        DropTempViewCommand ExplainCommand ExternalCommandExecutor
        InsertIntoDataSourceDirCommand ListArchivesCommand ListFilesCommand ListJarsCommand
        LoadDataCommand RefreshFunctionCommand RefreshTableCommand RepairTableCommand
        ResetCommand SaveAsV1TableCommand SetCatalogCommand SetCommand
        SetNamespaceCollationCommand SetNamespaceCommand SetPathCommand ShowCatalogsCommand
        ShowCollationsCommand ShowColumnsCommand ShowCreateTableAsSerdeCommand
        ShowCreateTableCommand ShowCurrentNamespaceCommand ShowFunctionsCommand
        ShowNamespacesCommand ShowPartitionsCommand ShowPartitionsJsonCommand
        ShowProceduresCommand ShowTablePropertiesCommand ShowTablesCommand
        ShowTablesJsonCommand ShowViewsCommand StreamingExplainCommand TruncateTableCommand
        UnsetNamespacePropertiesCommand
        """,
        "sql.execution.datasources": """
        CreateTable CreateTempViewUsing InsertIntoDataSourceCommand
        InsertIntoHadoopFsRelationCommand LogicalRelation RefreshResource
        SaveIntoDataSourceCommand WriteFiles
        """,
        "sql.execution.datasources.parquet": """
        ScalarCastHelper
        """,
        "sql.execution.datasources.v2": """
        DataSourceV2Relation DataSourceV2ScanRelation ScanBuilderHolder
        StreamingDataSourceV2Relation StreamingDataSourceV2ScanRelation WriteToDataSourceV2
        """,
        "sql.execution.stat": """
        CollectFrequentItems
        """,
        "sql.execution.streaming.continuous": """
        WriteToContinuousDataSource
        """,
        "sql.execution.streaming.runtime": """
        OffsetHolder StreamingExecutionRelation StreamingRelation
        """,
        "sql.execution.streaming.sources": """
        MemoryPlan WriteToMicroBatchDataSource WriteToMicroBatchDataSourceV1
        """,
        "sql.hive": """
        HiveGenericUDF HiveGenericUDTF HiveSimpleUDF HiveUDAFFunction
        """,
        "sql.hive.execution": """
        CreateHiveTableAsSelectCommand InsertIntoHiveDirCommand InsertIntoHiveTable
        """,
        "sql.metricview.logical": """
        CreateMetricView MetricViewPlaceholder ResolvedMetricView
        """,
    }
)

ADMITTED: Final = _names(_ADMITTED)
REFUSED: Final = _names(_REFUSED)
